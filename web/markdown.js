// SPDX-License-Identifier: Apache-2.0
'use strict';
// Markdown to elements, for text that nobody has checked. Only createElement and text nodes are used, so
// whatever the text holds stays text. Links go to http, https and mailto; images become links. All text goes
// through emit(parent, from, to), which adds source[from, to): the caller knows who wrote it.
//
// Each rule looks at lines of 2,000 characters and paragraphs of 20,000 at most; what is longer stays as it is.
const Markdown = (() => {
  const LONG_LINE = 2000, LONG_PARAGRAPH = 20000, DEEPEST = 8;
  const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
  const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
  const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
  const QUOTE = /^ {0,3}> ?/;
  const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|\t|$)/;
  const DIVIDER = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
  const PUNCTUATION = /[!-/:-@[-`{-~]/;
  const SCHEMES = new Set(['http:', 'https:', 'mailto:']);

  function splitLines(source) {
    const lines = [];
    for (let from = 0; from <= source.length;) {
      let to = source.indexOf('\n', from);
      if (to < 0)
        to = source.length;
      lines.push({ from, to });
      from = to + 1;
    }
    return lines;
  }

  // ---- blocks: objects with kind, from, to, and what they hold ----

  class Blocks {
    constructor(source, depth) {
      this.source = source;
      this.depth = depth;
    }

    // Of a long line nothing is looked at.
    look(line) {
      return line.to - line.from > LONG_LINE ? 'x' : this.source.slice(line.from, line.to);
    }

    begins(text) {
      return FENCE.test(text) || HEADING.test(text) || RULE.test(text) || QUOTE.test(text) || ITEM.test(text);
    }

    parse(lines) {
      const out = [];
      for (let i = 0; i < lines.length;) {
        const text = this.look(lines[i]);
        if (text.trim() === '') {
          i++;
          continue;
        }
        const begin = i;
        const [block, next] = this.take(lines, i, text);
        i = next;
        out.push(Object.assign(block, { from: lines[begin].from, to: lines[next - 1].to }));
      }
      return out;
    }

    take(lines, i, text) {
      let match;
      if ((match = FENCE.exec(text)))
        return this.fence(lines, i, match[1]);
      if ((match = HEADING.exec(text)))
        return [{ kind: 'heading', level: match[1].length,
          lines: [{ from: lines[i].from + match[0].length, to: lines[i].to }] }, i + 1];
      if (RULE.test(text))
        return [{ kind: 'rule' }, i + 1];
      if (this.depth < DEEPEST && QUOTE.test(text))
        return this.quote(lines, i);
      if (this.depth < DEEPEST && ITEM.test(text))
        return this.list(lines, i);
      if (text.includes('|') && i + 1 < lines.length && lines[i + 1].to > lines[i + 1].from &&
          this.look(lines[i + 1]).includes('-') && DIVIDER.test(this.look(lines[i + 1])))
        return this.table(lines, i);
      return this.paragraph(lines, i);
    }

    fence(lines, i, mark) {
      const held = [];
      const end = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ \\t]*$`);
      let next = i + 1;
      for (; next < lines.length && !end.test(this.look(lines[next])); next++)
        held.push(lines[next]);
      return [{ kind: 'code', lines: held }, Math.min(next + 1, lines.length)];
    }

    quote(lines, i) {
      const held = [];
      let next = i, match;
      for (; next < lines.length && (match = QUOTE.exec(this.look(lines[next]))); next++)
        held.push({ from: lines[next].from + match[0].length, to: lines[next].to });
      return [{ kind: 'quote', blocks: new Blocks(this.source, this.depth + 1).parse(held) }, next];
    }

    list(lines, i) {
      const first = ITEM.exec(this.look(lines[i]));
      const ordered = first[2].length > 1;
      const items = [];
      let next = i;
      while (next < lines.length) {
        const match = ITEM.exec(this.look(lines[next]));
        if (!match || (match[2].length > 1) !== ordered || RULE.test(this.look(lines[next])))
          break;
        next = this.item(lines, next, match, items);
      }
      return [{ kind: 'list', ordered, start: parseInt(first[2], 10) || 1, items }, next];
    }

    // Lines that are indented belong to the item, and so does text that follows without an empty line.
    item(lines, i, match, items) {
      const indent = match[0].length;
      const held = [{ from: lines[i].from + indent, to: lines[i].to }];
      let next = i + 1, gap = false;
      for (; next < lines.length; next++) {
        const text = this.look(lines[next]);
        const inner = text.search(/[^ ]/);
        if (inner < 0) {
          gap = true;
          held.push({ from: lines[next].to, to: lines[next].to });
        } else if (inner >= Math.min(indent, 2) && !(inner < indent && ITEM.test(text))) {
          held.push({ from: lines[next].from + Math.min(inner, indent), to: lines[next].to });
        } else if (gap || this.begins(text)) {
          break;
        } else {
          held.push(lines[next]);
        }
      }
      items.push(new Blocks(this.source, this.depth + 1).parse(held));
      return next;
    }

    cells(line) {
      const out = [];
      let from = line.from, to = line.to;
      while (from < to && ' \t'.includes(this.source[from])) from++;
      while (to > from && ' \t'.includes(this.source[to - 1])) to--;
      if (this.source[from] === '|') from++;
      if (to > from && this.source[to - 1] === '|') to--;
      for (let at = from; at <= to; at++) {
        if (at < to && this.source[at] === '\\') {
          at++;
        } else if (at === to || this.source[at] === '|') {
          out.push({ from, to: at });
          from = at + 1;
        }
      }
      return out;
    }

    table(lines, i) {
      const rows = [this.cells(lines[i])];
      let next = i + 2;
      for (; next < lines.length && this.look(lines[next]).includes('|'); next++)
        rows.push(this.cells(lines[next]));
      return [{ kind: 'table', rows }, next];
    }

    paragraph(lines, i) {
      const held = [lines[i]];
      let next = i + 1;
      for (; next < lines.length; next++) {
        const text = this.look(lines[next]);
        if (text.trim() === '' || this.begins(text))
          break;
        held.push(lines[next]);
      }
      return [{ kind: 'paragraph', lines: held }, next];
    }
  }

  // ---- text within a block ----

  function safeAddress(text) {
    try {
      const url = new URL(text);
      return SCHEMES.has(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  }

  function makeLink(href) {
    const a = document.createElement('a');
    a.href = href;
    a.target = '_blank';
    a.rel = 'noopener noreferrer';
    return a;
  }

  class Inline {
    // The lines' text is one string; `parts` say where it comes from.
    constructor(source, lines, emit) {
      this.emit = emit;
      this.parts = [];
      this.missing = new Set(); // marks that nothing closes any more
      this.text = '';
      for (const line of lines) {
        if (this.parts.length > 0)
          this.text += '\n';
        this.parts.push({ at: this.text.length, from: line.from });
        this.text += source.slice(line.from, line.to);
      }
    }

    plain(parent, from, to) {
      for (let i = 0; i < this.parts.length && from < to; i++) {
        const part = this.parts[i];
        const end = i + 1 < this.parts.length ? this.parts[i + 1].at - 1 : this.text.length;
        if (from >= part.at && from < end) {
          const stop = Math.min(to, end);
          this.emit(parent, part.from + from - part.at, part.from + stop - part.at);
          from = stop;
        }
        if (from === end && from < to) {
          parent.append(document.createElement('br'));
          from++;
        }
      }
    }

    all(parent) {
      if (this.text.length > LONG_PARAGRAPH)
        this.plain(parent, 0, this.text.length);
      else
        this.range(parent, 0, this.text.length, 0);
    }

    range(parent, from, to, depth) {
      let plain = from;
      for (let at = from; at < to;) {
        const found = depth < DEEPEST ? this.element(at, from, to) : null;
        if (!found) {
          at++;
          continue;
        }
        this.plain(parent, plain, at);
        if (found.element) {
          if (found.raw)
            this.plain(found.element, found.from, found.to);
          else
            this.range(found.inner || found.element, found.from, found.to, depth + 1);
          parent.append(found.element);
          plain = found.end;
        } else {
          plain = at + 1; // a backslash
        }
        at = found.end;
      }
      this.plain(parent, plain, to);
    }

    // The element that begins at `at`: what it holds and where it ends. null: there is none.
    element(at, from, to) {
      switch (this.text[at]) {
      case '\\':
        return at + 1 < to && PUNCTUATION.test(this.text[at + 1]) ? { end: at + 2 } : null;
      case '`': return this.code(at, to);
      case '*': case '_': case '~': return this.emphasis(at, from, to);
      case '!': return this.text[at + 1] === '[' ? this.link(at + 1, to) : null;
      case '[': return this.link(at, to);
      case 'h': return this.address(at, from, to);
      default: return null;
      }
    }

    run(at, to) {
      let end = at;
      while (end < to && this.text[end] === this.text[at]) end++;
      return end - at;
    }

    code(at, to) {
      const n = this.run(at, to), mark = '`'.repeat(n);
      for (let close = this.missing.has(mark) ? -1 : this.text.indexOf(mark, at + n);
        close >= 0 && close < to;) {
        const length = this.run(close, to);
        if (length === n)
          return { element: document.createElement('code'), raw: true, from: at + n, to: close, end: close + n };
        close = this.text.indexOf(mark, close + length);
      }
      this.missing.add(mark);
      return { element: document.createDocumentFragment(), raw: true, from: at, to: at + n, end: at + n };
    }

    emphasis(at, from, to) {
      const mark = this.text[at], n = Math.min(this.run(at, to), mark === '~' ? 2 : 3);
      const whole = mark.repeat(n), word = /[\p{L}\p{N}]/u;
      if ((mark === '~' && n < 2) || this.missing.has(whole) || /\s/.test(this.text[at + n] || ' ') ||
          (mark === '_' && at > from && word.test(this.text[at - 1])))
        return this.skip(at, this.run(at, to));
      for (let close = this.text.indexOf(whole, at + n); close >= 0 && close + n <= to;
        close = this.text.indexOf(whole, close + Math.max(this.run(close, to), 1))) {
        if (/\s/.test(this.text[close - 1]) || this.run(close, to) !== n ||
            (mark === '_' && close + n < to && word.test(this.text[close + n])))
          continue;
        const outer = document.createElement(mark === '~' ? 'del' : n === 1 ? 'em' : 'strong');
        const inner = n === 3 ? document.createElement('em') : null;
        if (inner)
          outer.append(inner);
        return { element: outer, inner, from: at + n, to: close, end: close + n };
      }
      this.missing.add(whole);
      return this.skip(at, this.run(at, to));
    }

    // Marks that mean nothing stay text.
    skip(at, n) {
      return { element: document.createDocumentFragment(), raw: true, from: at, to: at + n, end: at + n };
    }

    link(at, to) {
      const middle = this.missing.has('](') ? -1 : this.text.indexOf('](', at);
      if (middle < 0) {
        this.missing.add('](');
        return null;
      }
      const end = this.text.indexOf(')', middle);
      if (end < 0 || end >= to || middle - at > LONG_LINE)
        return null;
      const href = safeAddress(this.text.slice(middle + 2, end).trim().split(/\s/)[0]);
      return href ? { element: makeLink(href), from: at + 1, to: middle, end: end + 1 } : null;
    }

    address(at, from, to) {
      const shape = /https?:\/\/[^\s<>"'`]{1,2000}/y;
      shape.lastIndex = at;
      if (at > from && /[\p{L}\p{N}]/u.test(this.text[at - 1]))
        return null;
      const match = shape.exec(this.text);
      if (!match)
        return null;
      let end = Math.min(at + match[0].length, to);
      while (end > at && '.,;:!?)*_]'.includes(this.text[end - 1])) end--;
      const href = safeAddress(this.text.slice(at, end));
      return href ? { element: makeLink(href), raw: true, from: at, to: end, end } : null;
    }
  }

  // ---- elements ----

  function fill(parent, tag, source, lines, emit) {
    const element = document.createElement(tag);
    new Inline(source, lines, emit).all(element);
    return parent.appendChild(element);
  }

  function build(parent, block, source, emit) {
    const make = (tag) => parent.appendChild(document.createElement(tag));
    switch (block.kind) {
    case 'heading': // of one level for who listens, so that none is left out; the size shows the others
      return void fill(parent, 'h3', source, block.lines, emit).classList.add(`l${block.level}`);
    case 'rule':
      return void make('hr');
    case 'quote': {
      const quote = make('blockquote');
      return block.blocks.forEach((inner) => build(quote, inner, source, emit));
    }
    case 'list':
      return buildList(make(block.ordered ? 'ol' : 'ul'), block, source, emit);
    case 'table':
      return buildTable(make('table'), block, source, emit);
    case 'code': {
      const pre = make('pre'), code = pre.appendChild(document.createElement('code'));
      pre.tabIndex = 0; // it may be wider than its place: so the keyboard can scroll it
      return block.lines.forEach((line) =>
        emit(code, line.from, Math.min(line.to + 1, source.length)));
    }
    default:
      return void fill(parent, 'p', source, block.lines, emit);
    }
  }

  function buildList(list, block, source, emit) {
    if (block.ordered && block.start !== 1)
      list.start = block.start;
    for (const item of block.items) {
      const li = list.appendChild(document.createElement('li'));
      const tight = item.length > 0 && item[0].kind === 'paragraph';
      if (tight)
        new Inline(source, item[0].lines, emit).all(li);
      item.slice(tight ? 1 : 0).forEach((inner) => build(li, inner, source, emit));
    }
  }

  function buildTable(table, block, source, emit) {
    block.rows.forEach((row, i) => {
      const tr = table.appendChild(document.createElement('tr'));
      row.forEach((cell) => fill(tr, i === 0 ? 'th' : 'td', source, [cell], emit));
    });
  }

  // Makes `parent` show the source. Text only grows: blocks before the last one are not built again. `before`:
  // what the last call for this parent has returned, or null.
  function show(parent, source, emit, before) {
    const blocks = new Blocks(source, 0).parse(splitLines(source));
    let same = 0;
    while (before && same < Math.min(before.length, blocks.length) - 1 &&
        before[same].from === blocks[same].from && before[same].to === blocks[same].to)
      same++;
    while (parent.childNodes.length > same)
      parent.lastChild.remove();
    for (const block of blocks.slice(same))
      build(parent, block, source, emit);
    return blocks;
  }

  return { show };
})();
