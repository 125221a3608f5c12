// SPDX-License-Identifier: Apache-2.0
'use strict';
// The server's figures, from its page /metrics, which is read every two seconds while somebody looks.
(() => {
  const EVERY_MS = 2000, MINUTE_MS = 60000;
  const $ = (id) => document.getElementById(id);
  const PARTS = { pass: 'passes', head: 'output head', judge: 'walking trees', own_draft: 'own drafts',
    engine_rest: 'messages and the rest', engine_idle: 'waiting for edges', engine_vacant: 'no work' };
  const COUNTS = { sessions_opened_total: 'Sessions opened', sessions_refused_total: 'Opens refused',
    rounds_total: 'Verdicts', tokens_total: 'Tokens of text', drafted_tokens_total: 'Tokens drafted by edges',
    accepted_tokens_total: 'Of these accepted', pass_failures_total: 'Passes that failed',
    kv_released_total: 'KV given up to others' };
  const seen = []; // { at, page }: what was read in the last minute, the oldest first

  // Prometheus text as a map from names to [{ labels, value }].
  function parse(text) {
    const page = new Map();
    for (const line of text.split('\n')) {
      const match = /^foretoken_(\w+)(?:\{([^}]*)\})? (\S+)$/.exec(line);
      if (!match || !Number.isFinite(Number(match[3])))
        continue;
      const labels = Object.fromEntries([...(match[2] || '').matchAll(/(\w+)="([^"]*)"/g)].map((m) => [m[1], m[2]]));
      page.set(match[1], [...(page.get(match[1]) || []), { labels, value: Number(match[3]) }]);
    }
    return page;
  }

  const value = (page, name) => (page.get(name) || [{ value: 0 }])[0].value;

  function labelled(page, name, labels) {
    const found = (page.get(name) || []).find((one) => Object.entries(labels).every(([k, v]) => one.labels[k] === v));
    return found ? found.value : 0;
  }

  // By how much a counter grew from one page to another. A server that was started anew counts from 0.
  function growth(before, now, name, labels) {
    const [a, b] = labels ? [labelled(before, name, labels), labelled(now, name, labels)]
      : [value(before, name), value(now, name)];
    return b >= a ? b - a : b;
  }

  const plots = {};
  for (const [name, title, unit, digits] of [
    ['tokens', 'Text', 'tokens/s', 1], ['sessions', 'Sessions', 'open', 0], ['verdicts', 'Verdicts', 'a second', 1],
    ['accepted', 'Accepted', '% of drafted', 0], ['passes', 'Passes', 'a second', 1], ['rows', 'Rows', 'a pass', 1],
    ['queue', 'Queue', 'ms a round', 1], ['verify', 'Verification', 'ms a round', 1], ['kv', 'KV in use', '%', 0]])
    plots[name] = new Plot($('plots'), title, unit, digits);

  const ratio = (part, whole) => (whole > 0 ? part / whole : null);
  const percent = (share) => (share === null ? '–' : `${(100 * share).toFixed(share < 1 && share > 0.99 ? 1 : 0)} %`);

  function addPoints(before, now) {
    const x = now.at, took = (now.at - before.at) / 1000;
    const grew = (name) => growth(before.page, now.page, name);
    const rounds = grew('rounds_total'), passes = grew('pass_rows_count'), blocks = value(now.page, 'kv_blocks');
    const scaled = (share, by) => (share === null ? null : share * by);
    plots.tokens.add(x, grew('tokens_total') / took);
    plots.sessions.add(x, value(now.page, 'sessions'));
    plots.verdicts.add(x, rounds / took);
    plots.accepted.add(x, scaled(ratio(grew('accepted_tokens_total'), grew('drafted_tokens_total')), 100));
    plots.passes.add(x, passes / took);
    plots.rows.add(x, ratio(grew('pass_rows_sum'), passes));
    plots.queue.add(x, scaled(ratio(grew('round_queue_seconds_total'), rounds), 1000));
    plots.verify.add(x, scaled(ratio(grew('round_verify_seconds_total'), rounds), 1000));
    plots.kv.add(x, scaled(ratio(blocks - value(now.page, 'kv_free_blocks'), blocks), 100));
    Object.values(plots).forEach((plot) => plot.draw());
  }

  function cell(row, text) {
    row.insertCell().textContent = text;
  }

  // A class is there while it has sessions, and once a text of it was verified.
  function showPromises(old, now) {
    const all = now.page.get('class_sessions') || [];
    const classes = all.filter(({ labels, value: open }) => labels.tokens_per_s !== '0'
      && (open > 0 || labelled(now.page, 'slo_rounds_total', labels) > 0));
    const took = (now.at - old.at) / 1000, rows = document.createElement('tbody');
    for (const { labels, value: open } of classes) {
      const row = rows.insertRow(), grew = (name) => growth(old.page, now.page, name, labels);
      const texts = labelled(now.page, 'slo_texts_total', labels), rounds = labelled(now.page, 'slo_rounds_total', labels);
      cell(row, Object.values(labels).join(' '));
      cell(row, String(open));
      cell(row, took > 0 ? (grew('slo_rounds_total') / took).toFixed(1) : '–');
      cell(row, percent(ratio(grew('slo_rounds_met_total'), grew('slo_rounds_total'))));
      cell(row, percent(ratio(labelled(now.page, 'slo_rounds_met_total', labels), rounds)));
      cell(row, String(texts));
      cell(row, percent(ratio(labelled(now.page, 'slo_texts_met_total', labels), texts)));
    }
    const effort = rows.insertRow();
    cell(effort, 'best effort');
    cell(effort, String(labelled(now.page, 'class_sessions', { tokens_per_s: '0' })));
    for (let i = 0; i < 5; i++)
      cell(effort, '–');
    $('promise-rows').replaceChildren(...rows.rows);
    $('promises').hidden = classes.length === 0;
    $('no-promises').hidden = classes.length > 0;
  }

  function showParts(old, now) {
    const times = Object.keys(PARTS).map((name) => growth(old.page, now.page, `${name}_seconds_total`));
    const whole = times.reduce((a, b) => a + b, 0);
    const bars = [], items = [];
    Object.entries(PARTS).forEach(([name, title], i) => {
      const bar = document.createElement('i'), item = document.createElement('li'), box = document.createElement('i');
      bar.className = box.className = `p-${name}`;
      bar.style.flexBasis = whole > 0 ? `${100 * times[i] / whole}%` : '0';
      item.append(box, `${title}: ${percent(ratio(times[i], whole))}`);
      bars.push(bar);
      items.push(item);
    });
    $('shares').replaceChildren(...bars);
    $('parts').replaceChildren(...items);
  }

  function showCounts(page) {
    $('counts').replaceChildren(...Object.entries(COUNTS).map(([name, title]) => {
      const pair = document.createElement('div');
      pair.append(Object.assign(document.createElement('dt'), { textContent: title }),
        Object.assign(document.createElement('dd'), { textContent: value(page, name).toLocaleString('en') }));
      return pair;
    }));
  }

  async function look() {
    try {
      const response = await fetch('metrics');
      if (!response.ok)
        throw new Error(`status ${response.status}`);
      const now = { at: performance.now(), page: parse(await response.text()) };
      if (seen.length > 0)
        addPoints(seen[seen.length - 1], now);
      seen.push(now);
      while (seen.length > 2 && now.at - seen[1].at >= MINUTE_MS) seen.shift();
      showPromises(seen[0], now);
      showParts(seen[0], now);
      showCounts(now.page);
      $('state').textContent = `As of ${new Date().toLocaleTimeString()}; read every two seconds.`;
    } catch (error) {
      $('state').textContent = `The server cannot be read (${error.message}). These are its last figures.`;
    }
  }

  const dark = matchMedia('(prefers-color-scheme: dark)');
  const setTheme = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light'; };
  dark.addEventListener('change', setTheme);
  setTheme();
  look();
  setInterval(() => { if (!document.hidden) look(); }, EVERY_MS);
})();
