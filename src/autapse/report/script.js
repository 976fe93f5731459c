"use strict";

// Tables: a click on a heading sorts by that column, a second click the other way round. Empty cells stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = row => {
      const cell = row.cells[column];
      if (cell.dataset.v === undefined) return cell.textContent;
      return cell.dataset.v === "" ? null : Number(cell.dataset.v);
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b), undefined, {numeric: true});
    const rows = [...table.tBodies[0].rows].map(row => [value(row), row]);
    rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : (down ? -1 : 1) * compare(a, b));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }));
}

// Values under the pointer.
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";

function show(text, event) {
  tip.textContent = text;
  tip.style.visibility = "visible";
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, event.clientY - box.height - 8) + "px";
}

function hide() {
  tip.style.visibility = "hidden";
  for (const rule of document.querySelectorAll(".rule")) rule.style.visibility = "hidden";
}

for (const svg of document.querySelectorAll("svg[data-curves]")) {
  const curves = JSON.parse(svg.dataset.curves), [low, high, start, end] = JSON.parse(svg.dataset.x);
  const rule = svg.querySelector(".rule");
  svg.addEventListener("pointermove", event => {
    const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const wanted = low + (place - start) / (end - start) * (high - low);
    const near = curves.map(({name, p}) => [name, p.reduce((a, b) => Math.abs(b[0] - wanted) < Math.abs(a[0] - wanted) ? b : a)]);
    const step = near.reduce((a, b) => Math.abs(b[1][0] - wanted) < Math.abs(a[1][0] - wanted) ? b : a)[1][0];
    const x = start + (step - low) / (high - low) * (end - start);
    rule.setAttribute("x1", x);
    rule.setAttribute("x2", x);
    rule.style.visibility = "visible";
    show(["step " + step.toLocaleString("en"), ...near.map(([name, point]) => name + ": " + point[1])].join("\n"), event);
  });
  svg.addEventListener("pointerleave", hide);
}
document.addEventListener("pointerover", event => {
  const text = event.target.closest("[data-tip]")?.dataset.tip;
  if (text) show(text, event);
  else if (!event.target.closest("svg[data-curves]")) hide();
});
addEventListener("scroll", hide, {passive: true});
