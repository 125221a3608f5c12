// SPDX-License-Identifier: Apache-2.0
'use strict';
// What survives a reload: chats and settings in localStorage, the API key in sessionStorage. A browser that
// forbids storage, or has no room left, loses that and nothing else.
const Store = (() => {
  const SETTINGS = 'foretoken.settings', CHATS = 'foretoken.chats', KEY = 'foretoken.key';
  const chatKey = (id) => `foretoken.chat.${id}`;

  function read(key) {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  function write(key, value) {
    try {
      localStorage.setItem(key, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  }

  function settings() {
    const s = read(SETTINGS);
    return { system: '', temperature: '', seed: '', maxTokens: '', schema: '', functions: '', theme: '', origins: true, ...(s || {}) };
  }

  function key() {
    try {
      return sessionStorage.getItem(KEY) || '';
    } catch {
      return '';
    }
  }

  function setKey(value) {
    try {
      sessionStorage.setItem(KEY, value);
    } catch { /* it is asked for again */ }
  }

  /* [{ id, title }], the newest first */
  function list() {
    const chats = read(CHATS);
    return Array.isArray(chats) ? chats.filter((c) => c && typeof c.id === 'string') : [];
  }

  function load(id) {
    const chat = read(chatKey(id));
    return chat && Array.isArray(chat.messages) ? chat : null;
  }

  // Without rounds and origins if there is no room for them. False: not saved.
  function save(chat) {
    write(CHATS, [{ id: chat.id, title: chat.title }, ...list().filter((c) => c.id !== chat.id)]);
    if (write(chatKey(chat.id), chat))
      return true;
    const bare = chat.messages.map(({ role, text, calls, id, name }) => ({ role, text, calls, id, name }));
    return write(chatKey(chat.id), { ...chat, messages: bare });
  }

  function drop(id) {
    write(CHATS, list().filter((c) => c.id !== id));
    try {
      localStorage.removeItem(chatKey(id));
    } catch { /* nothing was kept */ }
  }

  return { settings, saveSettings: (s) => write(SETTINGS, s), key, setKey, list, load, save, drop };
})();
