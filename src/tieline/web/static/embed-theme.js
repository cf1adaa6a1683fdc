// Gives the page the colours of the editor that frames it.

const KINDS = { light: "light", dark: "dark", "contrast-light": "light", "contrast-dark": "dark" };

const VARIABLES = {
  background: ["--bg"],
  foreground: ["--text"],
  muted: ["--muted", "--faint"],
  surface: ["--surface"],
  raised: ["--raised"],
  hover: ["--hover"],
  border: ["--line"],
  borderStrong: ["--line-strong"],
  accent: ["--accent"],
  accentHover: ["--accent-strong"],
  onAccent: ["--on-accent"],
  link: ["--link"],
  focus: ["--focus"],
  error: ["--bad"],
  warning: ["--warn"],
  good: ["--good"],
  added: ["--added"],
  removed: ["--removed"],
};
const LONGEST = 100;

/** Apply a theme message. Unknown names and values that are not colours are ignored. */
export function applyTheme({ kind, colors }) {
  const root = document.documentElement;
  if (Object.hasOwn(KINDS, kind)) {
    root.style.colorScheme = KINDS[kind];
    root.toggleAttribute("data-contrast", kind.startsWith("contrast"));
  }
  const given = colors !== null && typeof colors === "object" ? colors : {};
  for (const [name, variables] of Object.entries(VARIABLES)) {
    const color = Object.hasOwn(given, name) && isColor(given[name]) ? given[name] : null;
    for (const variable of variables) {
      if (color) root.style.setProperty(variable, color);
      else root.style.removeProperty(variable); // the colour of an earlier theme would not match this one
    }
  }
}

// `CSS.supports` also accepts references such as var(), which are not colours of the editor.
function isColor(value) {
  return (
    typeof value === "string" &&
    value.length <= LONGEST &&
    !/\b(?:var|env|attr|inherit|initial|unset|revert|currentcolor)\b/i.test(value) &&
    CSS.supports("color", value)
  );
}
