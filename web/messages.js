// SPDX-License-Identifier: Apache-2.0
'use strict';
// The list of messages. A message is { role, text } and, of an answer, calls (calls.js), spans ([end, origin, index of the
// round]), rounds, how, ms, first (ms until text came), tokens, error, and while it grows `live`. Views are made from messages, never the
// other way round.

/* Adds the text [from, to) of an answer, split where its origin changes. */
function emitter(message) {
  const spans = message.spans || [];
  let hint = 0;
  return (parent, from, to) => {
    if (hint >= spans.length || (hint > 0 && spans[hint - 1][0] > from))
      hint = 0;
    if (spans.length > 32 && (hint === 0 || spans[hint][0] <= from)) { // the first span that ends behind `from`
      let low = 0, high = spans.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (spans[middle][0] <= from)
          low = middle + 1;
        else
          high = middle;
      }
      hint = low;
    }
    while (hint < spans.length && spans[hint][0] <= from) hint++;
    for (let i = hint; from < to; i++) {
      const end = i < spans.length ? Math.min(spans[i][0], to) : to;
      const text = message.text.slice(from, end);
      if (i < spans.length) {
        const element = document.createElement('span');
        element.className = `o ${spans[i][1]}`;
        element.dataset.round = spans[i][2];
        element.textContent = text;
        parent.append(element);
      } else {
        parent.append(text);
      }
      from = end;
    }
  };
}

function button(text, title, action) {
  const b = document.createElement('button');
  b.type = 'button';
  b.textContent = text;
  if (title)
    b.title = title;
  b.addEventListener('click', action);
  return b;
}

function seconds(message) {
  const parts = [`${(message.ms / 1000).toFixed(1)} s`];
  if (message.tokens > 0)
    parts.unshift(plural(message.tokens, 'token'));
  if (message.tokens > 0 && message.ms > 0)
    parts.push(`${(1000 * message.tokens / message.ms).toFixed(1)} tokens/s`);
  return parts.join(', ');
}

class MessageView {
  #blocks = null;

  constructor(message, on) {
    this.message = message;
    this.on = on; // { isLast, edit, again, plain, results, look, hover, leave, pick }
    this.element = document.createElement('li');
    this.element.className = `message ${message.role}`;
    this.body = this.element.appendChild(document.createElement('div'));
    this.body.className = 'body';
    this.calls = this.element.appendChild(document.createElement('div'));
    this.after = this.element.appendChild(document.createElement('div'));
    if (message.role === 'assistant')
      this.#watch();
    this.draw();
    this.finish();
  }

  draw() {
    const { message, body } = this;
    if (message.role === 'tool')
      body.textContent = `Result of ${message.name}\n${message.text}`;
    else if (message.role === 'user')
      body.textContent = message.text;
    else if (message.how && message.how.schema)
      this.#json();
    else
      this.#blocks = Markdown.show(body, message.text, emitter(message), this.#blocks);
    body.classList.toggle('busy', message.live === true);
    this.calls.replaceChildren(...callCards(message.calls || []));
  }

  #json() {
    let pre = this.body.querySelector('pre');
    if (!pre) {
      pre = this.body.appendChild(document.createElement('pre'));
      pre.className = 'json';
      pre.tabIndex = 0;
      pre.setAttribute('aria-label', 'The answer, JSON');
    }
    showJson(pre, this.message.text, emitter(this.message));
  }

  /* What stands below a message that does not grow any more. */
  finish() {
    const { message, on } = this;
    const tools = document.createElement('div');
    tools.className = 'tools';
    this.draw();
    this.after.replaceChildren();
    if (message.live)
      return;
    if (message.error)
      this.after.append(this.#error(message.error));
    if (message.role === 'tool')
      return;
    if (message.role === 'user') {
      tools.append(button('Edit', 'Change this message and ask again; what follows it is replaced', () => this.edit()));
    } else {
      tools.append(button('Copy', 'Copy the text', (e) => this.#copy(e.target)),
        ...(on.isLast(message) ? [button('Again', 'Ask for another answer', () => on.again(message))] : []));
      if (message.how && message.rounds && message.rounds.length > 0)
        tools.append(button('Again without drafts', 'The same seed, and nothing is drafted: compare both',
          () => on.plain(message)),
        button('Figures', 'Show how this answer was made', () => on.look(message)));
      if (message.ms > 0)
        tools.append(Object.assign(document.createElement('span'),
          { className: 'took', textContent: seconds(message) }));
    }
    this.after.append(tools);
    if (message.calls && on.isLast(message) && !message.error && !message.cut)
      this.after.append(resultForm(message.calls, (texts) => on.results(message, texts)));
    if (message.plain)
      this.after.append(comparison(message));
  }

  #error(text) {
    const box = document.createElement('div');
    box.className = 'error';
    box.setAttribute('role', 'alert');
    box.append(`${text} `);
    if (this.on.isLast(this.message))
      box.append(button('Try again', '', () => this.on.again(this.message)));
    return box;
  }

  async #copy(b) {
    try {
      await navigator.clipboard.writeText(this.message.text);
      b.textContent = 'Copied';
    } catch {
      b.textContent = 'This browser does not allow it';
    }
  }

  edit() {
    const area = document.createElement('textarea'), row = document.createElement('div');
    area.className = 'edit';
    area.value = this.message.text;
    area.setAttribute('aria-label', 'Your message');
    row.className = 'tools';
    const done = () => {
      if (area.value.trim() !== '')
        this.on.edit(this.message, area.value);
    };
    area.addEventListener('keydown', (e) => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        done();
      } else if (e.key === 'Escape') {
        e.stopPropagation();
        this.finish();
      }
    });
    row.append(button('Ask again', '', done), button('Cancel', '', () => this.finish()));
    this.after.replaceChildren(area, row);
    area.focus();
  }

  /* The round of a word: on hover, and on a touch. */
  #watch() {
    const show = (e) => {
      const span = e.target.closest('.o');
      if (span)
        this.on.hover(this.message, Number(span.dataset.round), e);
      else
        this.on.leave();
    };
    this.body.addEventListener('pointermove', show);
    this.body.addEventListener('pointerleave', () => this.on.leave());
    this.body.addEventListener('click', (e) => {
      const span = e.target.closest('.o');
      if (span && !e.target.closest('a'))
        this.on.pick(this.message, Number(span.dataset.round));
    });
  }

  mark(i) {
    for (const span of this.body.querySelectorAll('.o'))
      span.classList.toggle('chosen', Number(span.dataset.round) === i);
  }
}

/* The first place where two texts differ; the shorter one's length if it is the other's beginning. */
function firstDifference(a, b) {
  let i = 0;
  while (i < a.length && i < b.length && a[i] === b[i]) i++;
  return i;
}

/* The second answer finds the question in the server's cache. So speeds are compared from the first word on. */
function compareTimes(message, plain) {
  const s = (time) => `${(time / 1000).toFixed(2)} s`;
  const all = `${s(message.ms)} with drafts, ${s(plain.ms)} without.`;
  const [a, b] = [message, plain].map((one) => one.ms - (one.first || 0));
  if (!(a > 0) || !(b > 0))
    return all;
  return `${all} From the first word on: ${s(a)} and ${s(b)}, ` +
    (b >= a ? `${(b / a).toFixed(2)} times as fast with drafts.` : `${(a / b).toFixed(2)} times as fast without.`);
}

function isSame(a, b) {
  const calls = (one) => JSON.stringify((one.calls || []).map(callText));
  return a.text === b.text && calls(a) === calls(b);
}

function verdictText(message) {
  const { plain } = message;
  if (plain.live)
    return 'Asking again without drafts…';
  if (plain.error)
    return `The answer without drafts failed: ${plain.error}`;
  const times = compareTimes(message, plain);
  if (isSame(message, plain))
    return `Both texts are the same, character by character. ${times}`;
  const why = message.same === false ? ' This edge’s rule promises the same distribution, not the same text.' : '';
  if (message.text === plain.text)
    return `The calls differ.${why} ${times}`;
  return `The texts differ from character ${firstDifference(message.text, plain.text) + 1} on.${why} ${times}`;
}

/* Both texts side by side, as they are, without Markdown. */
function comparison(message) {
  const box = document.createElement('section'), columns = document.createElement('div');
  box.className = 'pair';
  box.setAttribute('aria-label', 'With and without drafts');
  const says = box.appendChild(document.createElement('p'));
  says.className = 'verdict';
  says.textContent = verdictText(message);
  columns.className = 'columns';
  const at = firstDifference(message.text, message.plain.text);
  const differ = !message.plain.live && !message.plain.error && message.text !== message.plain.text;
  for (const [title, one] of [['With drafts', message], ['Without drafts', message.plain]]) {
    const column = columns.appendChild(document.createElement('div'));
    column.append(Object.assign(document.createElement('h3'), { textContent: title }));
    const body = column.appendChild(document.createElement('div'));
    body.className = 'body raw';
    emitter(one)(body, 0, differ ? at : one.text.length);
    if (differ)
      emitter(one)(body.appendChild(document.createElement('mark')), at, one.text.length);
    body.append(...callCards(one.calls || []));
  }
  box.append(columns);
  return box;
}
