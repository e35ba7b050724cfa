"use strict";
// One run at a time, and the queues after the packet that is chosen.
const picks = document.querySelector(".picks"), runs = [...document.querySelectorAll(".run")];
let on = runs[0];
function pick(i) {
  if (!runs[i]) return;
  const look = on.querySelector(".look"), open = look && look.open;
  runs.forEach((r, k) => r.classList.toggle("on", k === i));
  if (picks) picks.querySelectorAll("button").forEach((b, k) => b.setAttribute("aria-pressed", k === i));
  on = runs[i];
  if (open) on.querySelector(".look").open = true;
}
if (picks) { picks.classList.add("live"); picks.onclick = e => { const b = e.target.closest("button"); if (b) pick(+b.dataset.run); }; }
const link = /^#run(\d+)$/.exec(location.hash); // a link to a run, with the packets open
pick(link ? +link[1] : 0);
if (link) on.querySelector(".look").open = true;

function box(cls, text) { const s = document.createElement("span"); s.className = cls; s.textContent = text; return s; }
function queue(name, boxes) {
  const d = document.createElement("div"), b = document.createElement("b"), most = 6; d.className = "queue"; b.textContent = name; d.append(b, ...boxes.slice(0, most));
  const more = document.createElement("em");
  more.textContent = boxes.length > most ? "and " + (boxes.length - most) + " more" : boxes.length ? "" : "empty";
  if (more.textContent) d.append(more); return d;
}
function host(name, q) {
  const h = document.createElement("p"); h.className = "host"; h.textContent = "Host " + name + (q ? ": " + q.q : ": no queue pair yet");
  if (!q) return [h];
  return [h, queue("SQ", q.s.map((w, i) => box(i < q.t ? "" : "waits", w))), queue("RQ", Array.from({ length: q.r }, () => box("", "receive"))), queue("CQ", Array.from({ length: q.c }, () => box("done", "completion")))];
}
runs.forEach(run => {
  const list = run.querySelector(".ladder"), rows = [...run.querySelectorAll(".row")], pic = run.querySelector(".queues"), data = run.querySelector("script[type='application/json']");
  const states = data ? JSON.parse(data.textContent) : null; let sel = -1;
  function show(k) {
    if (!rows[k]) return;
    if (sel >= 0) rows[sel].setAttribute("aria-selected", "false");
    sel = k; rows[k].setAttribute("aria-selected", "true"); list.setAttribute("aria-activedescendant", rows[k].id); rows[k].scrollIntoView({ block: "nearest" });
    if (states) { const p = document.createElement("p"); p.className = "dim"; p.textContent = "After " + rows[k].querySelector(".lane").textContent; pic.replaceChildren(p, ...host("A", states[k][0]), ...host("B", states[k][1])); }
  }
  list.onclick = e => { const r = e.target.closest(".row"); if (r) show(rows.indexOf(r)); };
  list.onkeydown = e => {
    const to = { ArrowDown: sel + 1, j: sel + 1, ArrowUp: sel - 1, k: sel - 1, Home: 0, End: rows.length - 1 }[e.key];
    if (to !== undefined && !e.ctrlKey && !e.metaKey && !e.altKey) { show(Math.max(0, Math.min(rows.length - 1, to))); e.preventDefault(); }
  };
  const look = run.querySelector(".look"); if (look.open) show(0); look.ontoggle = () => { if (look.open && sel < 0) show(0); };
});
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName)) return;
  const go = rel => { const a = document.querySelector("a[rel=" + rel + "]"); if (a) a.click(); };
  if (e.key === "n") go("next"); else if (e.key === "p") go("prev"); else if (/^[1-9]$/.test(e.key) && picks) pick(+e.key - 1);
});
document.body.dataset.ready = "yes";
