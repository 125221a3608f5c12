// SPDX-License-Identifier: Apache-2.0
'use strict';
// JSON and calls of tools. An answer has `calls`: { id, name, text }, where text is the arguments as they came.
// A result is a message { role: 'tool', id, name, text }.

/* Shows JSON, or the beginning of it, with a line for each member: blanks between members become line breaks.
 * emit(parent, from, to) adds text. */
function showJson(parent, text, emit) {
  let depth = 0, from = 0, inString = false;
  const line = (to) => {
    emit(parent, from, to);
    parent.append(`\n${'  '.repeat(Math.min(depth, 40))}`);
    from = to;
  };
  const skipBlank = (i) => {
    while (i < text.length && ' \n\t\r'.includes(text[i])) i++;
    return i;
  };
  parent.replaceChildren();
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (inString) {
      if (c === '\\') i++;
      else if (c === '"') inString = false;
    } else if (c === '"') {
      inString = true;
    } else if ('{['.includes(c)) {
      const next = skipBlank(i + 1);
      if (next < text.length && '}]'.includes(text[next])) { // empty: it stays in the line
        i = next;
        continue;
      }
      depth++;
      line(i + 1);
      from = next;
      i = next - 1;
    } else if ('}]'.includes(c)) {
      depth = Math.max(0, depth - 1);
      line(i);
    } else if (c === ',') {
      line(i + 1);
      from = skipBlank(i + 1);
      i = from - 1;
    }
  }
  emit(parent, from, text.length);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/* What a call says, so that two answers can be compared: ids are random. */
function callText({ name, text }) {
  return `${name}(${text})`;
}

function callCards(calls) {
  return calls.map((call) => {
    const card = document.createElement('section'), code = document.createElement('pre');
    card.className = 'call';
    card.append(Object.assign(document.createElement('h3'), { textContent: `Calls ${call.name}` }), code);
    code.tabIndex = 0;
    code.setAttribute('aria-label', `Arguments of ${call.name}`);
    showJson(code, call.text, (parent, from, to) => parent.append(call.text.slice(from, to)));
    return card;
  });
}

/* Asks a person for the results of calls. send(texts), in their order. */
function resultForm(calls, send) {
  const form = document.createElement('form');
  form.className = 'results';
  const areas = calls.map((call) => {
    const label = document.createElement('label'), area = document.createElement('textarea');
    label.append(`Result of ${call.name}`, area);
    area.rows = 2;
    form.append(label);
    return area;
  });
  const button = Object.assign(document.createElement('button'), { type: 'submit', textContent: 'Send results' });
  form.append(button);
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    send(areas.map((area) => area.value));
  });
  return form;
}

/* The messages of a request. An answer that failed is left out, and so is a call that has no result. */
function requestMessages(messages) {
  const results = new Set(messages.filter(({ role }) => role === 'tool').map(({ id }) => id));
  return messages.flatMap((message) => {
    if (message.role === 'tool')
      return [{ role: 'tool', tool_call_id: message.id, content: message.text }];
    const calls = (message.calls || []).filter(({ id }) => results.has(id));
    if (calls.length > 0)
      return [{ role: 'assistant', content: message.text || null, tool_calls: calls.map(({ id, name, text }) =>
        ({ id, type: 'function', function: { name, arguments: text } })) }];
    return message.role === 'user' || message.text !== '' ? [{ role: message.role, content: message.text }] : [];
  });
}
