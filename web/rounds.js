// SPDX-License-Identifier: Apache-2.0
'use strict';
// How an answer was made: shares of origins, the reason in words, four plots, a strip of rounds. It shows one
// answer at a time, as it grows or as it was kept.
const ORIGIN_NAMES = {
  draft: ['drafted', 'by the small model, accepted'],
  early: ['early', 'drafted before the last verdict'],
  target: ['target', 'the large model’s own'],
  run: ['run', 'the large model alone'],
};

const REASONS = {
  asked: 'Nothing is drafted, because this answer was asked for without drafts.',
  no_model: 'Nothing is drafted: there is no draft model here. The server writes alone.',
  not_found: 'Nothing is drafted now: without a draft model, only what repeats earlier text can be.',
  reading: 'The draft model has not read the conversation yet. The server writes meanwhile.',
  no_room: 'Nothing is drafted now: the draft model’s memory is full of other texts.',
  over: 'Nothing is drafted any more: the text is longer than the draft model can read, or it has failed.',
  no_trees: 'Nothing is drafted now: the server says that it has no time for drafts.',
  measuring: 'The server writes the first tokens alone, to find out how fast it is.',
  not_worth: 'Nothing is drafted now: it does not pay. By the measured times the server alone is faster.',
};

const ms = (value) => (value >= 100 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`);
const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/* A round in words. */
function roundText(round) {
  const lines = [`Round ${round.n}, ${(round.ms / 1000).toFixed(2)} s after the question.`];
  if (round.kind === 'run')
    lines.push(round.tokens > 0 ? `The large model wrote ${plural(round.tokens, 'token')} alone.`
      : 'The large model ended the text.', REASONS[round.reason] || '');
  else
    lines.push(`${plural(round.drafted || 0, 'token')} drafted${round.kind === 'early' ? ' early' : ''}, ` +
      `${round.accepted || 0} accepted, then the large model’s own.`);
  if (round.rejected.length > 0)
    lines.push('Rejected: ' + round.rejected.map((text) => `“${text.replace(/\n/g, '⏎')}”`).join(', '));
  const times = [['draft_ms', 'drafting'], ['rtt_ms', 'network'], ['queue_ms', 'queue'], ['verify_ms', 'verification']]
    .filter(([name]) => round[name] > 0).map(([name, word]) => `${word} ${ms(round[name])}`);
  if (times.length > 0)
    lines.push(times.join(', '));
  if (round.fallback)
    lines.push('Checked on this machine, as no server was there.');
  return lines.filter((line) => line !== '').join('\n');
}

class Insight {
  static #MOST_BARS = 400;
  #shown = 0; // rounds of the message that are in the figures
  #message = null;
  #chosen = -1;

  constructor(on) {
    this.on = on; // { choose(message, index) }
    const $ = (id) => document.getElementById(id);
    Object.assign(this, { reason: $('reason'), strip: $('strip'), text: $('round-text'), legend: $('legend') });
    this.plots = {
      speed: new Plot($('plots'), 'Speed', 'tokens/s', 1),
      accepted: new Plot($('plots'), 'Accepted', '% of drafted', 0),
      trip: new Plot($('plots'), 'Round trip', 'ms', 1),
      bytes: new Plot($('plots'), 'Network, per token', 'bytes', 0),
    };
    this.#makeLegends($('strip-legend'));
    this.strip.addEventListener('keydown', (e) => this.#key(e));
    this.strip.addEventListener('click', (e) => {
      const bar = e.target.closest('.bar');
      if (bar)
        this.choose(Number(bar.dataset.round));
    });
  }

  #makeLegends(small) {
    this.shares = {};
    for (const [origin, [name, meaning]] of Object.entries(ORIGIN_NAMES)) {
      const li = this.legend.appendChild(document.createElement('li'));
      const text = li.appendChild(document.createElement('span'));
      const sample = document.createElement('span');
      sample.className = `o ${origin}`;
      sample.textContent = name;
      text.className = 'show';
      text.append(sample, ` ${meaning}`);
      this.shares[origin] = li.appendChild(Object.assign(document.createElement('span'), { className: 'share' }));
    }
    for (const [part, name] of [['draft', 'drafting'], ['wait', 'waiting'], ['verify', 'verdict']]) {
      const li = small.appendChild(document.createElement('li'));
      const box = li.appendChild(document.createElement('span'));
      box.className = `key-box b-${part}`;
      li.append(name);
    }
  }

  /* Shows this message from now on; null: none. */
  show(message) {
    this.#message = message;
    this.#shown = 0;
    this.#chosen = -1;
    this.text.textContent = '';
    this.strip.replaceChildren();
    this.reason.textContent = '';
    Object.values(this.plots).forEach((plot) => plot.clear());
    Object.values(this.shares).forEach((share) => { share.textContent = ''; });
    if (message)
      this.update(message);
  }

  get message() {
    return this.#message;
  }

  /* The message has grown. */
  update(message) {
    const rounds = message.rounds || [];
    if (message !== this.#message)
      return;
    for (; this.#shown < rounds.length; this.#shown++)
      this.#add(rounds, this.#shown);
    Object.values(this.plots).forEach((plot) => plot.draw());
    this.#share(message);
    this.#say(message, rounds);
    if (rounds.length > 0 && message.live)
      this.strip.scrollLeft = this.strip.scrollWidth;
  }

  #add(rounds, i) {
    const round = rounds[i];
    // Over the last eight verdicts: one alone jumps too much to be read.
    const begin = Math.max(0, i - 8), window = rounds.slice(begin + 1, i + 1);
    const took = round.ms - rounds[begin].ms;
    const sum = (name) => window.concat(i === 0 ? [round] : []).reduce((n, r) => n + (r[name] || 0), 0);
    this.plots.speed.add(round.ms, took > 0 ? 1000 * sum('tokens') / took : null);
    this.plots.accepted.add(round.ms, round.kind !== 'run' && sum('drafted') > 0 ? 100 * sum('accepted') / sum('drafted') : null);
    this.plots.trip.add(round.ms, round.rtt_ms);
    const tokens = rounds.slice(0, i + 1).reduce((n, r) => n + (r.tokens || 0), 0);
    this.plots.bytes.add(round.ms, tokens > 0 ? ((round.bytes_sent || 0) + (round.bytes_received || 0)) / tokens : null);
    this.#bar(rounds, i);
  }

  #bar(rounds, i) {
    const round = rounds[i], whole = Math.max(round.ms - (i > 0 ? rounds[i - 1].ms : 0), 1);
    const draft = Math.min(round.draft_ms || 0, whole), verify = Math.min(round.verify_ms || 0, whole - draft);
    const bar = document.createElement('span');
    bar.className = 'bar';
    bar.dataset.round = i;
    bar.style.flexGrow = whole;
    for (const [part, time] of [['verify', verify], ['wait', whole - draft - verify], ['draft', draft]]) {
      const piece = bar.appendChild(document.createElement('i'));
      piece.className = `b-${part}`;
      piece.style.flexGrow = 0;
      piece.style.height = `${(100 * time / whole).toFixed(1)}%`;
    }
    this.strip.append(bar);
    if (this.strip.childElementCount > Insight.#MOST_BARS)
      this.strip.firstElementChild.remove();
  }

  #share(message) {
    const count = {};
    let before = 0;
    for (const [end, origin] of message.spans || []) {
      count[origin] = (count[origin] || 0) + end - before;
      before = end;
    }
    for (const [origin, share] of Object.entries(this.shares))
      share.textContent = before > 0 ? `${Math.round(100 * (count[origin] || 0) / before)} %` : '';
  }

  #say(message, rounds) {
    const last = rounds[rounds.length - 1];
    if (message.away)
      this.reason.textContent = 'The server is lost. Looking for it, or for another one; the text then goes on.';
    else if (!last)
      this.reason.textContent = message.live ? 'Waiting for the first token.' : '';
    else if (last.kind === 'run')
      this.reason.textContent = REASONS[last.reason] || 'The server writes alone.';
    else
      this.reason.textContent = `Drafting: ${plural(last.drafted || 0, 'token')} in the last round, ` +
        `${last.accepted || 0} of them accepted.`;
  }

  /* Chooses a round by its index; its text is marked, too. */
  choose(i) {
    const rounds = this.#message && this.#message.rounds || [];
    if (!(i >= 0 && i < rounds.length))
      return;
    this.#chosen = i;
    for (const bar of this.strip.children)
      bar.classList.toggle('here', Number(bar.dataset.round) === i);
    const bar = this.strip.querySelector('.here');
    if (bar)
      this.strip.scrollLeft = bar.offsetLeft - this.strip.offsetLeft - this.strip.clientWidth / 2;
    this.text.textContent = roundText(rounds[i]);
    this.on.choose(this.#message, i);
  }

  #key(e) {
    const last = (this.#message && this.#message.rounds || []).length - 1;
    const to = { ArrowLeft: this.#chosen < 0 ? last : this.#chosen - 1, ArrowRight: this.#chosen + 1, Home: 0, End: last }[e.key];
    if (to === undefined)
      return;
    e.preventDefault();
    this.choose(Math.min(Math.max(to, 0), last));
  }
}
