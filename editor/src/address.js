// Checks the gateway's address from the settings.

"use strict";

const DEFAULT_URL = "http://127.0.0.1:18741";

/**
 * Return the base URL without a slash at its end, and whether it is on this machine. Throw an Error that says what is
 * wrong with the setting.
 * @param {string} url
 */
function parseAddress(url) {
  let parsed;
  try {
    parsed = new URL(url.trim() || DEFAULT_URL);
  } catch {
    throw new Error(`The setting tieline.url is not a URL. Expected an address such as ${DEFAULT_URL}`);
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:")
    throw new Error("The setting tieline.url must begin with http:// or https://");
  if (parsed.username || parsed.password)
    throw new Error("The setting tieline.url must not contain a key. Run “Tieline: Enter the Gateway's Key” instead.");
  if (parsed.search || parsed.hash) throw new Error("The setting tieline.url must not contain ? or #");
  const isLoopback = /^(127(\.\d{1,3}){3}|localhost|\[::1\])$/.test(parsed.hostname);
  if (parsed.protocol === "http:" && !isLoopback && !parsed.hostname.endsWith(".localhost"))
    throw new Error("The setting tieline.url must begin with https:// unless the gateway is on this machine.");
  const base = parsed.origin + parsed.pathname.replace(/\/+$/, "");
  const port = Number(parsed.port || (parsed.protocol === "https:" ? 443 : 80));
  // Only a plain address of this machine can be that of a gateway that the extension starts.
  const canStart = isLoopback && parsed.protocol === "http:" && base === parsed.origin;
  return { base, origin: parsed.origin, host: parsed.hostname.replace(/^\[|\]$/g, ""), port, canStart };
}

module.exports = { DEFAULT_URL, parseAddress };
