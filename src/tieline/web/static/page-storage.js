// The browser's storage for this page. Values that it does not accept are kept in memory for as long as the page is
// open: the storage may be full, or denied, as in a frame of another site.

class PageStorage {
  #storage;
  #values = new Map();

  constructor(name) {
    try {
      this.#storage = globalThis[name];
    } catch {
      this.#storage = null;
    }
  }

  getItem(key) {
    return this.#values.get(key) ?? this.#storage?.getItem(key) ?? null;
  }

  setItem(key, value) {
    this.#values.delete(key);
    try {
      this.#storage.setItem(key, value);
    } catch {
      this.#storage?.removeItem(key);
      this.#values.set(key, String(value));
    }
  }
}

/** Values that later visits find. */
export const lasting = new PageStorage("localStorage");

/** Values of this tab. */
export const ofThisTab = new PageStorage("sessionStorage");
