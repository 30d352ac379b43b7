// Every text and bar of the page with the ratio between it and what it stands on, after WCAG 2.2.
() => {
  const parse = (text) => {
    const [r, g, b, a] = text.match(/[\d.]+/g).map(Number);
    return { r, g, b, a: a === undefined ? 1 : a };
  };
  const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ({ r, g, b }) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (at) => {
    for (; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.a === 1) return color;
    }
    return { r: 255, g: 255, b: 255, a: 1 };
  };
  const ratio = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((p, q) => q - p);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const at of document.querySelectorAll("body *")) {
    if (at.closest("script, style, .skip") || !at.getClientRects().length) continue;
    const style = getComputedStyle(at);
    if (at instanceof SVGRectElement) {
      found.push({ what: at.getAttribute("class"), ratio: ratio(parse(style.fill), ground(at.closest("section"))), least: 3 });
      continue;
    }
    const own = [...at.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE);
    const text = own.map((one) => one.textContent).join("").trim();
    if (!text) continue;
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    found.push({ what: text.slice(0, 40), ratio: ratio(parse(style.color), ground(at)), least: large ? 3 : 4.5, size });
  }
  return found;
}
