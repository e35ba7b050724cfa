// Findings, connections, and what happens when something is pressed.
const endText = e => e.addr + (e.qpn_known ? " QP " + hex(e.qpn, 6) : "");
$("title").textContent = D.file + " explained";
$("sum").textContent = D.packets + " packets of RoCE v2 in " + time(D.duration_ns) + ", " + count(conns.length + (D.more_connections || 0), "connection") + (both ? ", " + files.map(f => f.packets + " in " + f.name).join(", ") : "") + (D.damage ? "; " + D.damage : "") + "." + (D.start_s > 1e9 ? " Begins " + clockOf(0) + "." : "");
const held = rows.reduce((n, r) => n + (r[F] ? 1 : 0) + (r[F2] ? 1 : 0), 0), parts = [];
const others = held < D.packets ? "roce explain --html --around FRAME, or --last N, draws others." : "";
const ends = rows.filter(r => r[F]);
if (others && !both) parts.push("Only " + held + " of " + D.packets + " packets are drawn" + (ends.length ? ": frames " + ends[0][F] + " to " + ends[ends.length - 1][F] : "") + ". The findings and the figures of connections are of all. " + others);
if (others && both) parts.push("Only " + held + " packets are drawn. " + others);
if (D.more_findings) parts.push(findings.length + " findings are here, and " + D.more_findings + " are not: roce explain -v has " + (findings.length < 2000 ? "no room for more than 10,000" : "more of them") + ".");
if (D.more_connections) parts.push(conns.length + " connections are here, those with findings and those with most packets, and " + D.more_connections + " are not.");
$("part").textContent = parts.join(" ");
const wrong = findings.filter(f => f.weight < 3).length + (D.more_findings || 0); // without what says that all is well
$("fh").textContent = wrong ? count(wrong, "finding") : "Nothing went wrong";
if (D.clock) $("clock").innerHTML = "<p>" + esc(D.clock) + "</p>";

let cur = -1, only = ""; // finding; kind that is shown
const absent = n => $("pos").textContent = "Packet " + n + " is not drawn. " + others;
function goFrame(file, frame, focus) { const i = rowOf(file, frame); if (i >= 0) show(i, focus); else absent(frame); }
function go(i, frame) {
  if (!(i in findings)) return;
  const f = findings[i]; if (cur >= 0 && $("f" + cur)) $("f" + cur).classList.remove("on");
  cur = i;
  while (!$("f" + i) && cardsMore) cardsMore();
  const e = $("f" + i); if (e) { e.classList.add("on"); e.scrollIntoView({ block: "nearest" }); }
  if (frame || f.frames.length) goFrame(f.in || 0, frame || f.frames[0], true);
  if (matchMedia("(max-width: 800px)").matches && started) $("bar").scrollIntoView({ block: "start" });
}
const CARDS = 200; // cards at first; more come with the button
let cardsMore = null, started = false;
const shown = () => findings.map((f, i) => i).filter(i => !only || findings[i].kind === only);
function cards() {
  $("findings").textContent = "";
  const all = shown(), told = new Set(); // kinds whose advice is on the page: on paper once is enough
  const add = from => {
    const frag = document.createDocumentFragment();
    for (const i of all.slice(from, from + CARDS)) {
      const f = findings[i], d = document.createElement("div"), link = f.in ? "packet2" : "packet";
      d.className = "finding" + (f.certain ? "" : " likely") + (f.weight > 2 ? " well" : f.weight > 1 ? " mild" : "") + (i === cur ? " on" : ""); d.id = "f" + i; d.dataset.i = i;
      d.innerHTML = "<button data-i=" + i + "><b>" + esc(f.kind) + "</b> <span class=dim>" + (f.frames.length ? "packet " + f.frames[0] + (both ? " of " + esc(files[f.in || 0].name) : "") + ", " : "") + (f.certain ? "certain" : "likely") + "</span></button><div>" + esc(f.text) + "</div>" +
        (f.both ? "<div class=seen>" + esc(f.both) + "</div>" : "") +
        (f.frames.length > 1 ? "<div class=seen>Packets " + f.frames.slice(0, 12).map(n => "<a href='#" + link + "=" + n + "' data-i=" + i + ">" + n + "</a>").join("") + (f.frames.length > 12 ? "and " + (f.frames.length - 12) + " more" : "") + "</div>" : "") +
        (f.advice ? "<div class='said" + (told.has(f.kind) ? " twice" : "") + "'>" + esc(f.advice) + "</div>" : "");
      told.add(f.kind); frag.append(d);
    }
    $("findings").append(frag); cardsMore = null;
    if (from + CARDS < all.length) { const b = document.createElement("button"); b.textContent = "show more"; $("findings").append(b); b.onclick = cardsMore = () => { b.remove(); add(from + CARDS); }; }
  };
  add(0);
}
$("findings").onclick = e => { // anywhere on it, and on the numbers of its packets
  const d = e.target.closest(".finding"); if (!d) return;
  const a = e.target.closest("a"); if (a) { e.preventDefault(); go(+d.dataset.i, +a.textContent); } else if (!String(getSelection())) go(+d.dataset.i);
};
function kindButtons() {
  const n = new Map(); findings.forEach(f => n.set(f.kind, (n.get(f.kind) || 0) + 1));
  if (n.size < 2) return;
  n.forEach((c, k) => { const b = document.createElement("button"); b.textContent = k + " " + c; b.setAttribute("aria-pressed", "false"); $("kinds").append(b);
    b.onclick = () => { only = only === k ? "" : k; for (const x of $("kinds").children) x.setAttribute("aria-pressed", String(x === b && only !== "")); cards(); const first = shown()[0]; if (only && first !== undefined) go(first); }; });
}
function connTable() {
  let h = "<tr><th>#</th><th>ends</th><th>done</th><th>again</th><th>p50 / p99</th></tr>";
  conns.slice(0, 300).forEach(c => {
    h += "<tr><td>" + c.number + "</td><td>" + esc(c.transport) + " " + esc(endText(c.ends[0])) + "<br>" + esc(endText(c.ends[1])) + (c.service ? "<br><span class=dim>" + esc(c.service) + "</span>" : "") + "</td>";
    const cell = f => c.ways.map((w, i) => w.packets ? f(w, i) : "").filter(x => x).join("<br>");
    h += "<td>" + cell((w, i) => (i ? "← " : "→ ") + Object.entries(w.operations || {}).map(([k, o]) => o.completed + " " + esc(k)).join(", ") + ", " + bps(w.goodput_bps)) + "</td>";
    h += "<td>" + cell(w => w.again + " of " + w.packets) + "</td><td>" + cell(w => w.latency.count ? time(w.latency.p50_ns) + " / " + time(w.latency.p99_ns) : "–") + "</td></tr>";
  });
  $("conns").innerHTML = h + (conns.length > 300 ? "<tr><td colspan=5>and " + (conns.length - 300) + " more, which the list above the packets has</td></tr>" : "");
}
function picks() {
  let h = "<option value=0>all</option>";
  conns.forEach(c => h += "<option value=" + c.number + ">" + c.number + ": " + esc(c.transport) + " " + esc(endText(c.ends[0])) + " – " + esc(endText(c.ends[1])) + "</option>");
  $("pick").innerHTML = h;
}
// The ladder under the mouse, and a finger.
const tip = $("tip"); let waiting = false;
box.onscroll = () => { tip.style.display = "none"; if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } };
const rowAt = e => { const d = e.target.closest && e.target.closest("[data-k]"); return d ? +d.dataset.k : -1; };
box.onpointermove = e => { const k = e.pointerType === "mouse" ? rowAt(e) : -1; if (!(k in list) || !$("sheet").hidden) { tip.style.display = "none"; return; }
  tip.innerHTML = fields(list[k]); tip.style.display = "block";
  tip.style.left = Math.max(0, Math.min(e.clientX + 16, innerWidth - tip.offsetWidth - 8)) + "px"; tip.style.top = Math.max(0, Math.min(e.clientY + 12, innerHeight - tip.offsetHeight - 8)) + "px"; };
box.onpointerleave = () => tip.style.display = "none";
box.onclick = e => { const k = rowAt(e); if (!(k in list)) return; show(list[k]); if (e.pointerType === "touch") sheet(true); };
function sheet(on) { $("sheet").hidden = !on || sel < 0; tip.style.display = "none"; if (!$("sheet").hidden) $("fields").innerHTML = fields(sel); }
$("shut").onclick = () => { sheet(false); box.focus({ preventScroll: true }); };
function rescale(f) { // about the middle of what is seen
  if (!toScale() || !list.length) return;
  const k = sel >= 0 && place[sel] >= 0 ? place[sel] : Math.min(list.length - 1, lower(Y, box.scrollTop + box.clientHeight / 2)), off = top(k) - box.scrollTop;
  zoom = Math.min(100, Math.max(1e-9, zoom * f)); layout(); box.scrollTop = top(k) - off; draw(true);
}
$("in").onclick = () => rescale(2); $("out").onclick = () => rescale(.5);
$("scale").onchange = () => { zoom = 0; filter(); if (sel >= 0 && place[sel] >= 0) show(sel); };
document.onkeydown = e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /SELECT|INPUT/.test(e.target.tagName) && e.key !== "Escape") return;
  const inLadder = e.target === box || e.target === document.body, k = sel < 0 || place[sel] < 0 ? -1 : place[sel], page = Math.max(1, Math.floor(box.clientHeight / H) - 1), end = list.length - 1;
  const to = { j: k + 1, k: k - 1 }[e.key] ?? (inLadder ? { ArrowDown: k + 1, ArrowUp: k - 1, PageDown: k + page, PageUp: k - page, Home: 0, End: end }[e.key] : undefined);
  if (to !== undefined) { if (end >= 0) show(list[Math.max(0, Math.min(end, to))]); e.preventDefault(); }
  else if (e.key === "n" || e.key === "p") { const all = shown(), at = all.indexOf(cur); go(all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + (e.key === "n" ? 1 : -1)))]); e.preventDefault(); }
  else if (e.key === "c") { const at = conns.findIndex(c => c.number === conn); conn = at + 1 < conns.length ? conns[at + 1].number : 0; $("pick").value = conn; filter(); }
  else if (e.key === "t") $("scale").click();
  else if (e.key === "+" || e.key === "-") rescale(e.key === "+" ? 2 : .5);
  else if (e.key === "Enter" && e.target === box) sheet($("sheet").hidden);
  else if (e.key === "Escape") sheet(false);
};
$("pick").onchange = e => { conn = +e.target.value; filter(); };
$("only").onchange = filter; $("plots").ontoggle = charts;
let width = 0; onresize = () => { if (innerWidth === width) { draw(true); return; } width = innerWidth; layout(); charts(); };
matchMedia("(prefers-color-scheme: dark)").onchange = charts;
// On paper: all packets, a connection at a time, if they are few; else those around each finding.
const PAPER = 400, PAPERF = 50;
function ladder(title, c, idx) {
  const k = connOf.get(c);
  return "<h2>" + esc(title) + "</h2><div class=ends><span>" + (both ? esc(files[0].name) : "packet, time") + "</span><span>" + (k ? esc(endText(k.ends[0])) : "") + "</span><span style='text-align:right'>" + (k ? esc(endText(k.ends[1])) : "") + "</span>" + (both ? "<span style='text-align:right'>" + esc(files[1].name) + "</span>" : "") + "</div>" +
    idx.map(i => "<div class='" + mark(i) + "'>" + cells(rows[i]) + "</div>").join("");
}
function around(f) { // the packet's neighbours of the same connection
  const i = rowOf(f.in || 0, f.frames[0]), same = k => !f.connection || rows[k][C] === f.connection || k === i, idx = [];
  for (let k = i - 1, n = 0; k >= 0 && n < 3 && i - k < 1000; k--) if (same(k)) { idx.unshift(k); n++; }
  for (let k = i, n = 0; k < rows.length && n < 7 && k - i < 1000; k++) if (same(k)) { idx.push(k); n++; }
  return idx;
}
function paper() {
  let h = "";
  if (rows.length <= PAPER) {
    const by = new Map(); rows.forEach((r, i) => { if (!by.has(r[C])) by.set(r[C], []); by.get(r[C]).push(i); });
    by.forEach((idx, c) => h += ladder(c ? "Connection " + c : "Other packets", c, idx));
  } else {
    findings.slice(0, PAPERF).filter(f => f.frames.length && rowOf(f.in || 0, f.frames[0]) >= 0).forEach(f => h += ladder(f.kind + ", packet " + f.frames[0], f.connection, around(f)));
    if (!wrong) h += ladder("The first " + PAPER + " packets", conns.length === 1 ? conns[0].number : 0, rows.slice(0, PAPER).map((_, i) => i));
    const more = findings.length - PAPERF;
    h += "<p class=dim>" + (more > 0 ? "The packets of " + more + " more findings, and all others, are" : "All " + held + " packets are") + " on the page itself" + (others ? ", as far as they are drawn: see the top" : "") + ".</p>";
  }
  if (findings.length > CARDS) h += "<p class=dim>" + findings.length + " findings, of which the first ones are above.</p>";
  $("paper").innerHTML = h;
}
onbeforeprint = () => { document.documentElement.classList.add("print"); paper(); charts(); };
onafterprint = () => { document.documentElement.classList.remove("print"); $("paper").innerHTML = ""; charts(); };

if (both) document.body.classList.add("both");
if (matchMedia("(max-width: 800px)").matches) $("cd").open = $("keys").open = false;
cards(); kindButtons(); connTable(); picks(); filter();
function jump() { const m = /^#packet(2?)=(\d+)$/.exec(location.hash); if (m) goFrame(m[1] ? 1 : 0, +m[2], true); return !!m; }
onhashchange = jump;
if (wrong) go(Math.max(0, findings.findIndex(f => f.frames.length && rowOf(f.in || 0, f.frames[0]) >= 0)));
jump(); started = true;
document.body.dataset.ready = "yes";
