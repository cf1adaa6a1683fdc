// Icons: line drawings on a 24-unit grid, created as SVG elements so that they have the colour of the text.

const SVG = "http://www.w3.org/2000/svg";

const PATHS = {
  __proto__: null, // an agent may name an icon "constructor"
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7.5 7.5h9v9h-9z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6.5 6.5l11 11M17.5 6.5l-11 11",
  edit: "M4 20l1-4.5L15.5 5a2.1 2.1 0 0 1 3 3L8 18.9zM13.5 7l3 3",
  delete: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 11v5M13.5 11v5",
  retry: "M4.5 12a7.5 7.5 0 1 0 2.4-5.5M4.5 4v4.5H9",
  left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M6 9.5l6 6 6-6",
  bottom: "M12 5v14M6 13l6 6 6-6",
  clip: "M19.5 11.5l-7.8 7.8a4.6 4.6 0 0 1-6.5-6.5l8-8a3 3 0 0 1 4.3 4.3l-8 8a1.5 1.5 0 0 1-2.1-2.1l7.2-7.2",
  image: "M4 5h16v14H4zM4 16l5-5 4.5 4.5L16 13l4 4M15.5 9.5h.01",
  file: "M6.5 3.5h7l4 4v13h-11zM13.5 3.5v4h4",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  inbox: "M4 13.5L6.5 5h11L20 13.5V19H4zM4 13.5h5a3 3 0 0 0 6 0h5",
  bell: "M6 16.5h12l-1.5-2.5v-3.5a4.5 4.5 0 0 0-9 0V14zM10.5 19.5h3",
  read: "M3 12s3.2-6 9-6 9 6 9 6-3.2 6-9 6-9-6-9-6zM12 14.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
  search: "M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM20 20l-4.7-4.7",
  move: "M4 8.5h14l-3-3M20 15.5H6l3 3",
  execute: "M5 7l5 5-5 5M12.5 17.5H19",
  think: "M12 3.5v3M12 17.5v3M3.5 12h3M17.5 12h3M6 6l2 2M16 16l2 2M6 18l2-2M16 8l2-2",
  fetch: "M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM4 12h16M12 4c4.5 4.5 4.5 11.5 0 16M12 4c-4.5 4.5-4.5 11.5 0 16",
  switch_mode: "M4 8h10M18 8h2M4 16h2M10 16h10M16 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM8 18a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  other: "M14.5 6.5a4 4 0 0 0-5.2 5.2L4 17v3h3l5.3-5.3a4 4 0 0 0 5.2-5.2l-2.5 2.5-2.5-.5-.5-2.5z",
  plan: "M10 6.5h10M10 12h10M10 17.5h10M4 6.5l1.2 1.2L7.5 5.5M4 12l1.2 1.2L7.5 11M4.5 17.5h2",
  shield: "M12 3.5l7 2.5v5.5c0 4.5-3 7.5-7 9-4-1.5-7-4.5-7-9V6z",
  question: "M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM9.8 9.7a2.3 2.3 0 1 1 3.4 2.1c-.8.4-1.2.9-1.2 1.7M12 16.3h.01",
  warn: "M12 4.5l8.5 15h-17zM12 10v4.5M12 17h.01",
  circle: "M12 17.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11z",
  dot: "M12 14.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z",
};

/** Create an icon. It is hidden from screen readers, so it needs text next to it or a label. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name in PATHS ? name : "other"}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] ?? PATHS.other);
  svg.append(path);
  return svg;
}
