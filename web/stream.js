// SPDX-License-Identifier: Apache-2.0
'use strict';
// Requests to the API that this page came from. Nothing that comes back is believed: each value is checked for
// its type before it is used.
const Api = (() => {
  const ORIGINS = ['draft', 'early', 'target', 'run'];
  const MOST_CALLS = 128;

  class ApiError extends Error {
    constructor(message, status) {
      super(message);
      this.status = status;
    }
  }

  const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
  const number = (v) => (Number.isFinite(v) ? v : null);

  function headers(more) {
    const key = Store.key();
    return key ? { ...more, Authorization: `Bearer ${key}` } : more;
  }

  async function failed(response) {
    let message = '';
    try {
      const body = await response.json();
      message = isObject(body) && isObject(body.error) ? String(body.error.message) : '';
    } catch { /* no JSON: the status says it */ }
    return new ApiError(message || `The server answered with status ${response.status}.`, response.status);
  }

  async function models() {
    const response = await fetch('/v1/models', { headers: headers({}) });
    if (!response.ok)
      throw await failed(response);
    const body = await response.json();
    const first = isObject(body) && Array.isArray(body.data) ? body.data[0] : null;
    return isObject(first) && typeof first.id === 'string' ? first.id : '';
  }

  // The lines of a stream, as they come. A line may have a megabyte: it is put together once.
  async function* lines(body) {
    const reader = body.getReader(), decoder = new TextDecoder();
    let parts = [];
    for (;;) {
      const { done, value } = await reader.read();
      let text = done ? decoder.decode() : decoder.decode(value, { stream: true });
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        parts.push(text.slice(0, end));
        yield parts.join('').replace(/\r$/, '');
        parts = [];
        text = text.slice(end + 1);
      }
      parts.push(text);
      if (done)
        return;
    }
  }

  // What an event says of its text: spans as [end in the text's characters, origin], never beyond the text.
  function spansOf(text, list) {
    const out = [];
    let at = 0, bytes = 0, until = 0;
    for (const span of Array.isArray(list) ? list : []) {
      if (!Array.isArray(span) || !(span[0] > 0) || !ORIGINS.includes(span[1]))
        continue;
      until += span[0];
      while (at < text.length && bytes < until) {
        const c = text.codePointAt(at);
        bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        at += c < 0x10000 ? 1 : 2;
      }
      out.push([at, span[1]]);
    }
    return out;
  }

  function roundOf(told) {
    if (number(told.round) === null || number(told.ms) === null)
      return null;
    const round = { n: told.round, ms: told.ms, kind: ['tree', 'early'].includes(told.kind) ? told.kind : 'run',
      fallback: told.fallback === true,
      reason: typeof told.reason === 'string' ? told.reason : '' };
    for (const name of ['drafted', 'accepted', 'tokens', 'draft_ms', 'wait_ms', 'rtt_ms', 'queue_ms', 'verify_ms',
      'bytes_sent', 'bytes_received'])
      round[name] = number(told[name]);
    round.rejected = (Array.isArray(told.rejected) ? told.rejected : [])
      .filter((text) => typeof text === 'string').slice(0, 8).map((text) => text.slice(0, 200));
    return round;
  }

  // Pieces of calls, as [index, { id, name, text }]: id and name come once, text piece by piece.
  function callsOf(list) {
    const string = (v) => (typeof v === 'string' ? v : '');
    return (Array.isArray(list) ? list : [])
      .filter((call) => isObject(call) && Number.isInteger(call.index) && call.index >= 0 && call.index < MOST_CALLS)
      .map((call) => {
        const told = isObject(call.function) ? call.function : {};
        return [call.index, { id: string(call.id), name: string(told.name), text: string(told.arguments) }];
      });
  }

  // One event's JSON, as { text, calls, spans, round, away, usage }. Throws for an error that it tells.
  function read(data) {
    let event;
    try {
      event = JSON.parse(data);
    } catch {
      throw new ApiError('The server sent an event that is not JSON.', 0);
    }
    if (!isObject(event))
      throw new ApiError('The server sent an event that is no object.', 0);
    if (isObject(event.error))
      throw new ApiError(String(event.error.message), 0);
    const choice = Array.isArray(event.choices) && isObject(event.choices[0]) ? event.choices[0] : {};
    const delta = isObject(choice.delta) ? choice.delta : {};
    const told = isObject(event.foretoken) ? event.foretoken : {};
    const text = typeof delta.content === 'string' ? delta.content : '';
    return { text, calls: callsOf(delta.tool_calls), spans: spansOf(text, told.spans), round: roundOf(told),
      away: told.state === 'reconnecting', usage: isObject(event.usage) ? event.usage : null,
      finish: typeof choice.finish_reason === 'string' ? choice.finish_reason : '' };
  }

  // Asks for an answer; yields what its events say. Throws ApiError, or AbortError after signal.
  async function* chat(request, signal) {
    const body = { ...request, stream: true, stream_options: { include_usage: true, include_draft: true } };
    const response = await fetch('/v1/chat/completions', {
      method: 'POST', headers: headers({ 'Content-Type': 'application/json' }), body: JSON.stringify(body), signal });
    if (!response.ok)
      throw await failed(response);
    for await (const line of lines(response.body)) {
      if (!line.startsWith('data:'))
        continue; /* a comment: the server is alive */
      const data = line.slice(5).trim();
      if (data === '[DONE]')
        return;
      yield read(data);
    }
    throw new ApiError('The connection ended before the answer did.', 0);
  }

  return { models, chat, ApiError };
})();
