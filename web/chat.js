// SPDX-License-Identifier: Apache-2.0
'use strict';
// The page: chats, asking, settings. One answer grows at a time; `growing` holds what can stop it.
(() => {
  const $ = (id) => document.getElementById(id);
  const NARROW = matchMedia('(max-width: 62rem)'), DARK = matchMedia('(prefers-color-scheme: dark)');
  const settings = Store.settings();
  let chat = null; // the open one: { id, title, messages }
  let views = [];
  let growing = null; // { controller, message, view, drawn }
  let afterKey = null; // what to do when a key was given

  const say = (text) => { $('state').textContent = text; };
  const insight = new Insight({ choose: (message, i) => viewOf(message)?.mark(i) });

  function viewOf(message) {
    return views.find((view) => view.message === message);
  }

  // ---- what a message offers ----

  function tip(message, i, e) {
    const round = message.rounds && message.rounds[i], box = $('tip');
    if (!round || !$('show-origin').checked)
      return hideTip();
    box.textContent = roundText(round);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(e.clientX + 12, innerWidth - width - 8))}px`;
    box.style.top = `${e.clientY + height + 26 > innerHeight ? Math.max(4, e.clientY - height - 12) : e.clientY + 18}px`;
  }

  function hideTip() {
    $('tip').hidden = true;
  }

  const actions = {
    isLast: (message) => chat.messages[chat.messages.length - 1] === message,
    edit(message, text) {
      if (growing)
        return;
      chat.messages.splice(chat.messages.indexOf(message));
      ask(text);
    },
    again(message) {
      if (growing)
        return;
      chat.messages.splice(chat.messages.indexOf(message));
      drawChat();
      answer();
    },
    plain: (message) => compare(message),
    results(message, texts) {
      if (growing)
        return;
      message.calls.forEach(({ id, name }, i) => chat.messages.push({ role: 'tool', id, name, text: texts[i] }));
      saveChat();
      drawChat();
      answer();
    },
    look(message) {
      openInsight(true);
      insight.show(message);
    },
    hover: tip,
    leave: hideTip,
    pick(message, i) {
      if (insight.message !== message)
        insight.show(message);
      insight.choose(i);
    },
  };

  // ---- chats ----

  function newChat() {
    stop();
    chat = { id: `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`, title: 'New chat', messages: [] };
    drawChat();
    drawList();
    $('ask').focus();
  }

  function openChat(id) {
    const found = Store.load(id);
    stop();
    if (!found)
      return newChat();
    chat = found;
    chat.messages.forEach((message) => { delete message.live; delete message.away; });
    drawChat();
    drawList();
    return undefined;
  }

  function saveChat(one = chat) {
    if (one.messages.length > 0 && !Store.save(one))
      say('This browser has no room left: the chat is not kept.');
  }

  function drawList() {
    $('chats').replaceChildren(...Store.list().map(({ id, title }) => {
      const li = document.createElement('li');
      const pick = button(title, title, () => { openChat(id); openSide(false); });
      pick.className = 'pick';
      if (chat && id === chat.id)
        pick.setAttribute('aria-current', 'true');
      const drop = button('×', 'Delete this chat', () => {
        Store.drop(id);
        if (chat.id === id)
          newChat();
        drawList();
      });
      drop.className = 'drop';
      drop.setAttribute('aria-label', `Delete “${title}”`);
      li.append(pick, drop);
      return li;
    }));
  }

  function drawChat() {
    views = chat.messages.map((message) => new MessageView(message, actions));
    $('messages').replaceChildren(...views.map((view) => view.element));
    $('hello').hidden = views.length > 0;
    $('title').textContent = chat.title;
    insight.show([...chat.messages].reverse().find((m) => m.role === 'assistant') || null);
    $('talk').scrollTop = $('talk').scrollHeight;
  }

  // ---- asking ----

  /* What an answer follows from, beside the messages before it. It is kept with the answer. */
  function chooseHow() {
    const { system, temperature, maxTokens, schema, functions } = settings;
    const seed = settings.seed !== '' ? Number(settings.seed) : crypto.getRandomValues(new Uint32Array(1))[0];
    return { system, temperature, maxTokens, schema, functions, seed };
  }

  function requestOf(messages, how) {
    const request = { messages: requestMessages(messages), seed: how.seed };
    if (how.system.trim() !== '')
      request.messages.unshift({ role: 'system', content: how.system });
    if (how.temperature !== '')
      request.temperature = Number(how.temperature);
    if (how.maxTokens !== '')
      request.max_tokens = Number(how.maxTokens);
    if (how.schema)
      request.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema: parsed(how.schema) } };
    if (how.functions)
      request.tools = parsed(how.functions).map((one) => ({ type: 'function', function: one }));
    return request;
  }

  function ask(text) {
    chat.messages.push({ role: 'user', text });
    if (chat.messages.length === 1)
      chat.title = text.trim().split('\n')[0].slice(0, 60) || 'Chat';
    saveChat();
    drawList();
    drawChat();
    answer();
  }

  function answer() {
    const how = chooseHow();
    const request = requestOf(chat.messages, how);
    const message = { role: 'assistant', text: '', spans: [], rounds: [], how, live: true };
    chat.messages.push(message);
    const view = new MessageView(message, actions);
    views.push(view);
    $('messages').append(view.element);
    insight.show(message);
    grow(message, request, view, () => view.draw());
  }

  /* The same request with the same seed, and no drafts. */
  function compare(message) {
    const view = viewOf(message);
    if (growing || !view)
      return;
    const before = chat.messages.slice(0, chat.messages.indexOf(message));
    const request = { ...requestOf(before, message.how), no_speculation: true };
    message.plain = { text: '', spans: [], rounds: [], live: true };
    const draw = () => view.finish();
    draw();
    grow(message.plain, request, { finish: draw }, draw);
  }

  function take(message, event) {
    const begin = message.text.length;
    message.text += event.text;
    for (const [i, piece] of event.calls) {
      message.calls ||= [];
      if (i === message.calls.length)
        message.calls.push({ id: '', name: '', text: '' });
      for (const name of i < message.calls.length ? ['id', 'name', 'text'] : [])
        message.calls[i][name] += piece[name];
    }
    message.away = event.away;
    if (event.round)
      message.rounds.push(event.round);
    const index = message.rounds.length - 1;
    for (const [end, origin] of event.spans)
      message.spans.push([begin + end, origin, index]);
    if (event.finish === 'length')
      message.cut = true;
    if (event.usage) {
      const told = event.usage.foretoken;
      message.tokens = event.usage.completion_tokens;
      message.same = told ? told.same_tokens : undefined;
    }
  }

  /* Lets a message grow until its stream ends. draw: shows it as it is. */
  async function grow(message, request, view, draw) {
    const controller = new AbortController(), began = performance.now(), owner = chat;
    growing = { controller, message };
    setBusy(true);
    say('Answering…');
    let due = false, saved = began;
    const show = () => {
      due = false;
      const talk = $('talk'), low = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
      draw();
      insight.update(message);
      if (low)
        talk.scrollTop = talk.scrollHeight;
    };
    try {
      for await (const event of Api.chat(request, controller.signal)) {
        take(message, event);
        if (event.away)
          say('The server is lost. Looking for it, or for another one…');
        else if (message.text !== '' || message.calls)
          say('Answering…');
        if (message.first === undefined && (message.text !== '' || message.calls))
          message.first = performance.now() - began;
        if (!due)
          due = requestAnimationFrame(show) > 0;
        if (performance.now() - saved > 2000) {
          saved = performance.now();
          saveChat(owner);
        }
      }
      say(message.cut ? 'The answer ends here: it has as many tokens as it may have.' : 'Done.');
    } catch (error) {
      failed(message, error);
    }
    message.ms = performance.now() - began;
    delete message.live;
    delete message.away;
    growing = null;
    setBusy(false);
    view.finish();
    insight.update(message);
    saveChat(owner);
    drawList();
  }

  function failed(message, error) {
    if (error.name === 'AbortError') {
      say('Stopped.');
    } else if (error.status === 401) {
      message.error = 'This server wants an API key.';
      say('');
      askKey(Store.key() ? 'The server does not know this key. Give another one.' : 'This server wants an API key.',
        () => actions.again(message));
    } else {
      message.error = error instanceof Api.ApiError ? error.message : 'The server cannot be reached.';
      say('');
    }
  }

  function stop() {
    if (growing)
      growing.controller.abort();
  }

  function setBusy(busy) {
    $('send').hidden = busy;
    $('stop').hidden = !busy;
  }

  // ---- settings ----

  const FIELDS = { system: 'system', temperature: 'temperature', seed: 'seed', 'max-tokens': 'maxTokens', schema: 'schema', functions: 'functions',
    theme: 'theme' };

  function setTheme() {
    document.documentElement.dataset.theme = settings.theme || (DARK.matches ? 'dark' : 'light');
  }

  /* Says in the field itself that it holds no such JSON: the dialog stays open. */
  function checkJson(id, fits, what) {
    const text = $(id).value.trim();
    $(id).setCustomValidity(text === '' || fits(parsed(text)) ? '' : what);
  }

  function checkFields() {
    const isObject = (v) => typeof v === 'object' && v !== null && !Array.isArray(v);
    checkJson('schema', isObject, 'This is no JSON object.');
    checkJson('functions', (v) => Array.isArray(v) && v.every(isObject), 'This is no JSON list of objects.');
  }

  function openSettings() {
    for (const [id, name] of Object.entries(FIELDS))
      $(id).value = settings[name];
    checkFields();
    $('key').value = Store.key();
    $('key-why').hidden = true;
    $('forget').dataset.sure = '';
    $('forget').textContent = 'Delete all chats';
    $('settings').showModal();
  }

  function askKey(why, then) {
    openSettings();
    $('key-why').textContent = why;
    $('key-why').hidden = false;
    afterKey = then;
    $('key').focus();
  }

  function closeSettings() {
    const hadKey = Store.key();
    for (const [id, name] of Object.entries(FIELDS))
      settings[name] = $(id).checkValidity() ? $(id).value.trim() : settings[name];
    Store.setKey($('key').value.trim());
    Store.saveSettings(settings);
    setTheme();
    const then = afterKey;
    afterKey = null;
    if (Store.key() !== hadKey) {
      findModel();
      if (then)
        then();
    }
    $('ask').focus();
  }

  async function findModel() {
    try {
      $('model').textContent = await Api.models();
      $('model').title = $('model').textContent;
    } catch (error) {
      $('model').textContent = '';
      if (error.status === 401)
        askKey(Store.key() ? 'The server does not know this key. Give another one.' : 'This server wants an API key.', null);
      else
        say(error instanceof Api.ApiError ? error.message : 'The server cannot be reached.');
    }
  }

  // ---- the parts of the page ----

  function openSide(open) {
    $('app').classList.toggle('chats-open', open);
    $('open-side').setAttribute('aria-expanded', String(open));
  }

  function openInsight(open) {
    $('app').classList.toggle('plain', !open);
    $('open-insight').setAttribute('aria-expanded', String(open));
  }

  function fitAsk() {
    $('ask').style.height = 'auto';
    $('ask').style.height = `${$('ask').scrollHeight + 2}px`;
  }

  function submit(e) {
    e.preventDefault();
    const text = $('ask').value;
    if (growing || text.trim() === '')
      return;
    $('ask').value = '';
    fitAsk();
    ask(text);
  }

  function showOrigins() {
    settings.origins = $('show-origin').checked;
    $('talk').classList.toggle('show', settings.origins);
    Store.saveSettings(settings);
  }

  function keys(e) {
    if (e.key !== 'Escape' || $('settings').open)
      return;
    if ($('app').classList.contains('chats-open'))
      openSide(false);
    else
      stop();
  }

  function listen() {
    $('composer').addEventListener('submit', submit);
    $('ask').addEventListener('input', fitAsk);
    $('ask').addEventListener('keydown', (e) => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing)
        submit(e);
    });
    $('stop').addEventListener('click', stop);
    $('new-chat').addEventListener('click', () => { newChat(); openSide(false); });
    $('open-side').addEventListener('click', () => openSide(!$('app').classList.contains('chats-open')));
    $('open-insight').addEventListener('click', () => openInsight($('app').classList.contains('plain')));
    $('open-settings').addEventListener('click', openSettings);
    $('settings').addEventListener('close', closeSettings);
    $('settings').addEventListener('input', checkFields);
    $('forget').addEventListener('click', () => {
      if ($('forget').dataset.sure !== 'yes') { // the first click asks
        $('forget').dataset.sure = 'yes';
        $('forget').textContent = 'Delete them all?';
        return;
      }
      Store.list().forEach(({ id }) => Store.drop(id));
      $('settings').close();
      newChat();
    });
    $('show-origin').addEventListener('change', showOrigins);
    $('talk').addEventListener('scroll', hideTip);
    DARK.addEventListener('change', setTheme);
    document.addEventListener('keydown', keys);
    addEventListener('pagehide', () => chat && saveChat());
  }

  setTheme();
  listen();
  $('show-origin').checked = settings.origins;
  showOrigins();
  openInsight(!NARROW.matches);
  const last = Store.list()[0];
  if (last)
    openChat(last.id);
  else
    newChat();
  findModel();
})();
