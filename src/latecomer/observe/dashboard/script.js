"use strict";
(() => {
  // Values from the store are put into the page as text, never as markup.
  const EVERY = 5000, VIEWS = ["now", "arrivals", "windows", "lateness", "ledger", "explain"];
  const FATES = { on_time: "on time", late_accepted: "late, accepted", side_output: "side output", dropped: "dropped",
    duplicate: "duplicate", filtered: "filtered", failed: "failed", dead_letter: "dead letter" };
  const main = document.getElementById("main"), live = document.getElementById("live");
  const kept = new Map();
  let pipelines = [], offset = 0, shown = "", painted = null, timer = 0, round = 0, pictureUrl = null;
  let token = null;
  try { token = sessionStorage.getItem("latecomer-token"); } catch { token = null; }

  // Elements
  function el(name, given = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(given)) {
      if (value === null || value === undefined || value === false) continue;
      if (key === "onclick" || key === "onsubmit" || key === "onchange") made.addEventListener(key.slice(2), value);
      else made.setAttribute(key === "cls" ? "class" : key, value === true ? "" : value);
    }
    made.append(...children.flat(9).filter(each => each !== null && each !== undefined && each !== false));
    return made;
  }
  const SVG = "http://www.w3.org/2000/svg";
  function draw(name, given = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  // Copies a drawing of the server shape by shape: only elements and attributes on these lists get into the page.
  const SHAPES = new Set(["svg", "g", "line", "rect", "circle", "polyline", "path", "text", "tspan", "title"]);
  const LOOKS = new Set(["viewBox", "role", "aria-label", "class", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r",
    "width", "height", "points", "d", "text-anchor"]);
  function drawing(text) {
    const read = new DOMParser().parseFromString(
      text.includes("xmlns=") ? text : text.replace("<svg", `<svg xmlns="${SVG}"`), "image/svg+xml");
    const copy = from => {
      const made = draw(from.localName);
      for (const each of from.attributes) if (LOOKS.has(each.name)) made.setAttribute(each.name, each.value);
      for (const child of from.childNodes) {
        if (child.nodeType === 3) made.append(child.data);
        else if (child.nodeType === 1 && SHAPES.has(child.localName)) made.append(copy(child));
      }
      return made;
    };
    return read.documentElement.localName === "svg" ? copy(read.documentElement) : el("p", { cls: "pale" }, "no drawing");
  }
  // On a narrow screen a plot scrolls sideways, so that its text does not become too small.
  const plot = (svg, label) => el("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": label }, drawing(svg));

  // Text: numbers, shares, durations and moments have the same form everywhere
  const grouped = text => text.replace(/^(-?)(\d+)(?=$|\.)/, (all, sign, whole) => sign + whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const figure = value => value === null || value === undefined ? "–" : grouped(String(value));
  const count = n => n === null || n === undefined ? "–" : Number(n).toLocaleString("en");
  const counted = (n, what) => count(n) + " " + what + (Number(n) === 1 ? "" : "s");
  const share = x => x === null || x === undefined ? "–" : (100 * x).toFixed(x === 0 || x === 1 ? 0 : x < 0.1 || x > 0.9 ? 2 : 1) + " %";
  function span(seconds) {
    const s = Math.max(0, Math.round(seconds));
    for (const [name, size, less, small] of [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]]) {
      const rest = Math.floor(s % size / small);
      if (s >= size) return Math.floor(s / size) + name + (rest ? " " + rest + less : "");
    }
    return s + "s";
  }
  const clock = () => Date.now() + offset;
  const moment = text => text ? text.replace("T", " ").replace(/(\.\d{3})\d+/, "$1").replace(/( \d\d:\d\d):00(?=Z|[+-])/, "$1") : "–";
  const second = text => moment(text).replace(/\.\d+/, "");
  const at = millis => moment(new Date(millis).toISOString().replace(/\.\d+Z$/, "Z"));
  const ago = millis => el("span", { "data-since": millis }, span((clock() - millis) / 1000));
  const tag = (text, kind) => el("span", { cls: "tag " + kind }, text);
  const KINDS = { ok: "good", firing: "bad", pending: "warn", backfill: "warn", unknown: "calm", off: "calm",
    "up to date": "good", behind: "warn", down: "bad", open: "calm", published: "good", "published late": "two", corrected: "two", rebuilt: "three",
    withdrawn: "bad" };

  function table(heads, rows, caption) {
    return el("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("thead", {}, el("tr", {}, heads.map(head => el("th", { scope: "col", cls: head.n ? "n" : null }, head.name ?? head)))),
        el("tbody", {}, rows.map(cells => el("tr", {}, cells.map((cell, nth) => {
          const kind = heads[nth] && heads[nth].n ? "n" : heads[nth] && heads[nth].text ? "text" : null;
          const long = typeof cell === "string" && cell.length > 40;
          return el("td", { cls: kind, title: long && kind !== "text" ? cell : null }, cell ?? "–");
        }))))));
  }
  // A chart with its axes: the largest value and 0 at the left, the first and the last moment below.
  function chart(values, { first, last, show, label, bars = false }) {
    const known = values.filter(each => each !== null && each !== undefined);
    if (!known.length) return el("p", { cls: "pale small" }, "nothing recorded yet");
    const most = Math.max(...known), top = most || 1, width = 300 / values.length, y = value => 54 - 50 * value / top;
    const svg = draw("svg", { class: "spark", viewBox: "0 0 300 54", preserveAspectRatio: "none", role: "img", "aria-label": `${label}, ${first} to ${last}, at most ${show(most)}` });
    for (const at of [4, 29, 53.5]) svg.append(draw("line", { class: "grid", x1: 0, x2: 300, y1: at, y2: at }));
    values.forEach((value, nth) => {
      if (bars && value) svg.append(draw("rect", { class: "column", x: nth * width + width * .1, width: width * .8, y: y(value), height: 54 - y(value) },
        draw("title", {}, show(value))));
    });
    for (const run of bars ? [] : runs(values)) {
      const places = run.length > 1 ? run.map(nth => [(nth + .5) * width, y(values[nth])]) : [[run[0] * width, y(values[run[0]])], [(run[0] + 1) * width, y(values[run[0]])]];
      const line = places.map(each => each.join(",")).join(" ");
      svg.append(draw("polygon", { class: "area", points: `${places[0][0]},54 ${line} ${places.at(-1)[0]},54` }), draw("polyline", { class: "stroke", points: line }));
    }
    return el("figure", { cls: "chart" }, el("div", { cls: "upright", "aria-hidden": "true" }, el("span", {}, most ? show(most) : ""), el("span", {}, "0")), svg,
      el("div", { cls: "level", "aria-hidden": "true" }, el("span", {}, first), el("span", {}, last)));
  }
  // The indexes of known values, in runs without a gap.
  function runs(values) {
    const found = [];
    values.forEach((value, nth) => {
      if (value === null || value === undefined) return;
      if (found.length && found.at(-1).at(-1) === nth - 1) found.at(-1).push(nth); else found.push([nth]);
    });
    return found;
  }

  // Requests
  class Refused extends Error { constructor(status, text) { super(text); this.status = status; } }
  async function ask(path) {
    const before = kept.get(path), headers = {};
    if (token) headers.Authorization = "Bearer " + token;
    if (before) headers["If-None-Match"] = before.tag;
    const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit" });
    const served = Date.parse(answer.headers.get("Date"));
    if (served && Math.abs(served - clock()) > 1500) offset = served - Date.now();
    if (answer.status === 304) return before.found;
    const found = await answer.json();
    if (!answer.ok) throw new Refused(answer.status, found.error || answer.statusText);
    kept.set(path, { tag: answer.headers.get("ETag"), found });
    if (kept.size > 100) kept.delete(kept.keys().next().value);
    return found;
  }

  // The view in the address: #view?p=0&output=…
  function currentView() {
    const [view, text] = location.hash.slice(1).split(/\?(.*)/s);
    const asked = new URLSearchParams(text || "");
    const p = Math.min(Math.max(parseInt(asked.get("p") || "0", 10) || 0, 0), Math.max(pipelines.length - 1, 0));
    return { view: VIEWS.includes(view) ? view : "now", p, asked };
  }
  function link(view, given) {
    const { p } = currentView(), asked = new URLSearchParams();
    if (p) asked.set("p", p);
    for (const [name, value] of Object.entries(given || {})) if (value !== null && value !== undefined && value !== "") asked.set(name, value);
    const text = asked.toString();
    return "#" + view + (text ? "?" + text : "");
  }
  const zone = output => pipelines[currentView().p].outputs[output].zone;
  const outputs = () => Object.keys((pipelines[currentView().p] || { outputs: {} }).outputs);
  function query(asked, names) {
    const made = new URLSearchParams();
    for (const name of names) if (asked.get(name)) made.set(name, asked.get(name));
    const text = made.toString();
    return text ? "?" + text : "";
  }
  const SHOW = {
    now: { ask: async (p) => ({ ...await ask(`/api/${p}/now`), sinks: await ask(`/api/${p}/sinks`).catch(error => ({ error: error.message, sinks: [] })) }), show: showNow },
    arrivals: { ask: (p, asked) => ask(`/api/${p}/arrivals` + query(asked, ["output", "until"])), show: showArrivals },
    windows: { ask: askWindows, show: showWindows },
    lateness: { ask: p => ask(`/api/${p}/lateness`), show: showLateness, slow: true },
    ledger: { ask: askLedger, show: showLedger },
    explain: { ask: async (p, asked) => asked.get("window") ? ask(`/api/${p}/explain` + query(asked, ["output", "window", "key"])) : null, show: showExplain },
  };

  // Views
  const lastOf = values => { const known = values.filter(each => each !== null); return known.length ? known.at(-1) : null; };
  const states = list => list.map(each => [tag((list.length > 1 ? each.alert.replace("side_output_", "") + " " : "") + each.state, KINDS[each.state]), " "]);
  function showNow(found) {
    const made = [];
    if (found.differences.length) made.push(el("p", { cls: "error", role: "alert" }, "The ledger does not balance: ",
      found.differences.map(each => `${each.output} ${each.unit} ${figure(each.difference)}`).join(", ")));
    for (const each of found.signals.filter(each => each.state === "firing"))
      made.push(el("p", { cls: "error", role: "alert" }, tag(each.severity, "bad"), " ", each.output ? each.output + ": " : "", each.reason));
    if (found.history) made.push(el("p", { cls: "note" }, `This is history: what arrived up to ${at(found.history)} was read long after. Lag, days and events go by the arrival clock, not by the wall clock.`));
    made.push(el("div", { cls: "cards" }, lagCard(found),
      el("section", { cls: "card" }, el("h2", { cls: "small" }, "Throughput"),
        el("p", { cls: "big" }, found.throughput === null ? "–" : count(+found.throughput.toPrecision(3)) + " events/s"),
        el("p", { cls: "pale" }, found.published_at ? [found.throughput === null ? "a single batch has no rate; it was published " : "in the minutes up to the last batch, published ", ago(found.published_at), " ago"] : "no batch published yet")),
      el("section", { cls: "card" }, el("h2", { cls: "small" }, "Run"),
        el("p", { cls: "big" }, found.running ? "running" : "stopped"),
        el("p", { cls: "pale" }, count(found.batches) + (found.batches === 1 ? " batch complete" : " batches complete"), found.running && found.since ? ", since " + second(found.since) : "",
          found.running ? "" : found.lease ? "; this is the state after the last run" : "; this is the state after the last run, or a run on another machine writes it"),
        found.lease ? el("p", { cls: "pale small" }, (found.lease.holder ? `lease of ${found.lease.holder}` : "nobody has the lease") + `, token ${found.lease.token}` +
          (found.lease.holder && !found.lease.gives_signs ? `; no sign of life since ${second(found.lease.renewed)}` : "")) : "")));
    if (found.received) made.push(receivedChart(found));
    made.push(el("h2", {}, "Signals"), Object.entries(found.days.outputs).map(([output, days]) => signalCards(found, output, days)));
    made.push(el("p", { cls: "pale small" }, `30 days (UTC)${found.history ? ", by arrival" : ""}; the figure is that of the last day with data.`));
    made.push(el("h2", {}, "Fates"), found.fates.some(each => each.unit === "events") ? el("div", { cls: "cards" },
      found.fates.filter(each => each.unit === "events").map(each => el("section", { cls: "card" }, el("h3", {}, each.output), fateBar(each), fateNumbers(each)))) :
      el("p", { cls: "state" }, "Nothing has been received yet."));
    return [...made, partitions(found), sinks(found.sinks)];
  }
  // How far a moment is behind the clock, or, for history, behind the newest arrival.
  const behind = (found, millis) => found.history ? span((found.history - millis) / 1000) : ago(millis);
  function lagCard(found) {
    const w = found.watermark, lag = found.signals.find(each => each.alert === "lag"), days = found.days;
    const stands = { none: "no event has set one", ended: "the input was drained: every window is closed" }[w.state] || "stands at " + at(w.at) + (found.history ? ", behind the newest arrival" : "");
    return el("section", { cls: "card" }, el("h2", { cls: "small" }, "Watermark ", lag ? tag("alert " + lag.state, KINDS[lag.state]) : ""),
      el("p", { cls: "big", id: "lag" }, w.state === "moving" ? [behind(found, w.at), " behind"] : w.state === "ended" ? "ended" : "none yet"),
      el("p", { cls: "pale" }, stands), chart(days.lag, { first: days.first, last: days.last, show: span, label: "lag of each of 30 days" }),
      el("p", { cls: "pale small" }, "lag of 30 days", lag ? `; alert: ${lag.reason}` : ""));
  }
  function receivedChart(found) {
    const { bars, since, until, width } = found.received, each = span(width / 1000).replace(/^1(?=[a-z]+$)/, "1 ");
    const words = { "1m": "minute by minute", "1h": "hour by hour", "1d": "day by day", "7d": "week by week" }[span(width / 1000)] || `in steps of ${each}`;
    return el("section", {}, el("h2", {}, found.history ? `Events by arrival, ${words}` : `Events received, ${words}`),
      chart(bars, { first: at(since), last: at(until), show: n => count(n), label: "events, " + words, bars: true }), el("p", { cls: "pale small" }, `events in each bar of ${span(width / 1000)}`));
  }
  function signalCards(found, output, days) {
    const of = name => found.signals.filter(each => each.output === output && each.alert.startsWith(name)), { first, last } = found.days;
    const card = (title, name, values, label) => el("div", { cls: "card" }, el("h4", { cls: "small" }, title, " ", states(of(name))), el("p", { cls: "big" }, share(lastOf(values))),
      chart(values, { first, last, show: share, label }), el("p", { cls: "pale small" }, label),
      of(name).map(each => el("p", { cls: "pale small" }, each.alert.replace("side_output_", "").replace("corrections_", "") + ": " + each.reason)));
    return el("section", {}, el("h3", {}, output), el("div", { cls: "cards" },
      card("Side output", "side_output", days.side_output, "share of the events set aside"), card("Corrections", "corrections", days.corrections, "corrections for each event")));
  }
  function partitions(found) {
    const { count: many, slowest } = found.partitions, clock = found.history ? "behind the newest arrival" : "behind the clock";
    if (!many) return [el("h2", {}, "Partitions"), el("p", { cls: "pale" }, "No partition has had an event yet.")];
    return [el("h2", {}, "Partitions"), table(["partition", "is at", { name: clock, n: true }, "silent since"],
      slowest.map(each => [each.name || "(none)", each.at === null ? "nothing yet" : at(each.at), each.at === null ? "–" : behind(found, each.at), each.silent_since === null ? "" : at(each.silent_since)]), "Partitions, the slowest first"),
      many > slowest.length && el("p", { cls: "pale small" }, `${count(many - slowest.length)} more are further ahead.`)];
  }
  function sinks({ error, sinks: all }) {
    return [el("h2", {}, "Sinks"), error ? el("p", { cls: "warning" }, error) : "",
      all && all.length ? table(["output", "sink", "target", "state", { name: "last batch", n: true }, { name: "batches behind", n: true }, { name: "why", text: true }],
        all.map(each => [each.output ?? each.stream, each.sink, each.target, tag(each.state, KINDS[each.state] || "calm"), count(each.last_batch), count(each.behind), each.reason || ""]), "Sinks") :
        el("p", { cls: "pale" }, "The pipeline has no sinks.")];
  }
  function showArrivals(found) {
    const step = (until, words) => until && el("a", { href: link("arrivals", { output: found.output, until }) }, words);
    return [chooser("arrivals", found), el("h2", {}, `Event time against arrival time: ${found.output}`),
      el("p", { cls: "pale" }, `What arrived from ${moment(found.since)} to ${moment(found.until)}. `, step(found.older, "earlier"), " ", step(found.newer, "later"), " ", found.newer ? el("a", { href: link("arrivals", { output: found.output }) }, "newest") : ""),
      el("div", { cls: "card" }, plot(found.svg, "Event time against arrival time")),
      el("p", { cls: "pale small" }, "Bands are windows. A window closes when the watermark reaches its upper edge: what comes for it after that is late, and too late once the dashed line has reached that edge. On the dotted line stand events that arrive as they happen. Point at a late event to read when it happened and when it came."),
      found.notes.map(each => el("p", { cls: "pale small" }, each))];
  }
  function fateBar(row) {
    const total = Object.keys(FATES).reduce((sum, fate) => sum + Math.max(Number(row[fate]), 0), 0);
    const svg = draw("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img",
      "aria-label": Object.entries(FATES).map(([fate, words]) => `${words} ${count(row[fate])}`).join(", ") });
    let x = 0;
    for (const fate of Object.keys(FATES)) {
      const width = total ? 100 * Math.max(Number(row[fate]), 0) / total : 0;
      if (width) svg.append(draw("rect", { class: "f-" + fate, x, y: 0, width: Math.max(width, .4), height: 4 }));
      x += width;
    }
    return el("div", { cls: "fates" }, svg);
  }
  function fateNumbers(row, given = {}) {
    const swatch = fate => draw("svg", { class: "key", viewBox: "0 0 1 1", "aria-hidden": "true" }, draw("rect", { class: "f-" + fate, width: 1, height: 1 }));
    return el("dl", { cls: "numbers" }, el("div", {}, el("dt", {}, "received"), el("dd", {}, count(row.received))),
      Object.entries(FATES).map(([fate, words]) => el("div", {}, el("dt", {}, swatch(fate), words),
        el("dd", {}, Number(row[fate]) ? el("a", { href: link("ledger", { output: row.output, fate, ...given }) }, count(row[fate])) : "0"))));
  }

  function chooser(view, given, more = []) {
    const { asked } = currentView(), names = outputs(), chosen = given.output || asked.get("output") || names[0];
    const select = el("select", { name: "output", onchange: () => { location.hash = link(view, { output: select.value }); } },
      names.map(name => el("option", { value: name, selected: name === chosen }, name)));
    return el("form", { cls: "ask", onsubmit: event => {
      event.preventDefault();
      const data = new FormData(event.target), key = {};
      for (const [name, value] of data) if (name.startsWith("key:") && value !== "") key[name.slice(4)] = value === "null" ? null : value;
      location.hash = link(view, { output: chosen, window: data.get("window") || "", key: Object.keys(key).length ? JSON.stringify(key) : "" });
    } }, el("label", {}, "Output", select), more);
  }
  function placeFields(asked) {
    const output = (pipelines[currentView().p] || { outputs: {} }).outputs[asked.get("output") || outputs()[0]];
    let key = {};
    try { key = JSON.parse(asked.get("key") || "{}") || {}; } catch { key = {}; }
    return [el("label", {}, "Window that holds", el("input", { name: "window", placeholder: "2026-04-25T14:00Z", value: asked.get("window") || "", size: 24 })),
      (output ? output.by : []).map(name => el("label", {}, name, el("input", { name: "key:" + name, value: key[name] === null ? "null" : key[name] ?? "", size: 14 }))),
      el("button", { type: "submit" }, "Show")];
  }

  function lifeline(window, name) {
    const panes = window.panes.filter(each => each.op === "insert" && each.numbers[name] !== null && each.numbers[name] !== undefined);
    if (!panes.length) return "";
    const values = panes.map(each => each.numbers[name]), low = Math.min(...values), high = Math.max(...values);
    // Panes that were published together, as history is, are placed by when they fired.
    const together = panes.every(each => each.at === panes[0].at), times = panes.map(each => (together ? each.fired : each.at) ?? clock());
    const first = Math.min(...times), length = Math.max(...times) - first;
    const x = nth => 6 + 132 * (length ? (times[nth] - first) / length : panes.length > 1 ? nth / (panes.length - 1) : 0);
    const y = value => high > low ? 26 - 20 * (value - low) / (high - low) : 16;
    const label = `${name} over processing time: ` + panes.map(each => `${each.values[name]} (${each.timing.toLowerCase().replace("_", " ")}, ${moment(each.published_at)})`).slice(0, 12).join(", then ");
    const svg = draw("svg", { class: "life", viewBox: "0 0 144 32", role: "img", "aria-label": label }, draw("title", {}, label));
    let path = "";
    panes.forEach((each, nth) => { path += nth ? `H${x(nth)}V${y(values[nth])}` : `M${x(0)},${y(values[0])}`; });
    svg.append(draw("path", { class: "stroke", d: path + "H142" }));
    panes.slice(0, 200).forEach((each, nth) => svg.append(draw("circle", { class: "pane " + each.timing, cx: x(nth), cy: y(values[nth]), r: 3 })));
    return svg;
  }
  // The windows are shown at once; their estimates follow when they are known.
  const nowcasts = new Map();
  async function askWindows(p, asked) {
    const path = `/api/${p}/nowcast` + query(asked, ["output", "window", "key"]), place = location.hash;
    const windows = await ask(`/api/${p}/windows` + query(asked, ["output", "window", "key", "skip"]));
    if (windows.empty) return windows;
    ask(path).catch(error => ({ refused: error.message, rows: [], warnings: [], notes: [] })).then(found => {
      const before = nowcasts.get(path);
      nowcasts.set(path, found);
      if (nowcasts.size > 20) nowcasts.delete(nowcasts.keys().next().value);
      if (place === location.hash && JSON.stringify(before) !== JSON.stringify(found)) refresh(false);
    });
    return { ...windows, nowcast: nowcasts.get(path) || null };
  }
  const spot = each => JSON.stringify([each.start, each.end, Object.entries(each.key)]);
  function probably(found, name) {
    const [value, low, high] = (found && found.estimates[name]) || [];
    return value === undefined || low === high ? "" : el("div", { cls: "pale small" }, `probably ${figure(value)}`, el("br"), `${figure(low)} to ${figure(high)}`);
  }
  function fullness(found) {
    if (!found) return "";
    if (found.complete === null) return el("span", { cls: "pale small", title: found.reason }, "not known");
    const words = (100 * found.complete).toFixed(found.complete < 1 && found.complete > .995 ? 2 : 0) + " %";
    return [draw("svg", { class: "full", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("rect", { class: "rest", width: 100, height: 6 }), draw("rect", { class: "column", width: 100 * found.complete, height: 6 })), words,
      found.reason ? el("div", { cls: "pale small reason" }, found.reason) : ""];
  }
  function aboutNowcast(nowcast) {
    if (!nowcast) return el("p", { cls: "pale small", id: "nowcast" }, "Estimating what these windows will be …");
    if (nowcast.empty) return "";
    if (nowcast.refused) return el("p", { cls: "pale small", id: "nowcast" }, "No nowcast: ", nowcast.refused, ".");
    return el("div", { id: "nowcast" }, nowcast.warnings.map(each => el("p", { cls: "warning" }, each)),
      el("details", {}, el("summary", {}, "How far the estimates can be trusted"), el("ul", {}, nowcast.notes.map(each => el("li", {}, each)))));
  }
  function showWindows(found, asked) {
    const names = Object.keys(found.aggregates), made = [chooser("windows", found, placeFields(asked))];
    for (const note of found.notes) made.push(el("p", { cls: "warning" }, note));
    const likely = new Map(((found.nowcast && found.nowcast.rows) || []).map(each => [spot(each), each]));
    if (!found.windows.length) return [...made, el("p", { cls: "state" }, asked.get("window") || asked.get("key") ? "No window matches." : "No window yet: no event has entered this output.")];
    const drawn = names.find(name => found.windows.some(each => each.panes.some(pane => pane.numbers[name] !== null)));
    // All windows are written with seconds, or none.
    const whole = found.windows.every(each => /T\d\d:\d\d:00(Z|[+-])/.test(each.start));
    const start = text => whole || !text ? moment(text) : text.replace("T", " ").replace(/(\.\d{3})\d+/, "$1");
    const estimated = found.windows.some(each => likely.has(spot(each)));
    made.push(aboutNowcast(found.nowcast));
    made.push(table([`window (${zone(found.output)})`, ...found.keys, ...names.map(name => ({ name, n: true })), "life", ...(estimated ? ["complete"] : []), { name: "panes", n: true }, ...(drawn ? [drawn + " over time"] : [])],
      found.windows.map(each => [
        el("a", { href: link("explain", { output: found.output, window: each.start, key: JSON.stringify(each.key) }) }, start(each.start)),
        ...found.keys.map(name => each.key[name] === null ? el("i", {}, "null") : each.key[name]),
        ...names.map(name => [each.values === null ? "–" : el("a", { href: link("explain", { output: found.output, window: each.start, key: JSON.stringify(each.key) }), "aria-label": `why is ${name} ${figure(each.values[name])}` }, each.values[name] === null ? "null" : figure(each.values[name])), probably(likely.get(spot(each)), name)]),
        [tag(each.stage, KINDS[each.stage]), each.final ? el("span", { cls: "pale small" }, " final") : ""],
        ...(estimated ? [fullness(likely.get(spot(each)))] : []),
        count(each.panes.length), ...(drawn ? [lifeline(each, drawn)] : [])]), "Windows, the newest first"));
    const step = to => el("a", { href: link("windows", { output: found.output, window: asked.get("window"), key: asked.get("key"), skip: to || "" }) }, to > found.skip ? "older" : "newer");
    made.push(el("p", {}, found.skip ? [step(Math.max(found.skip - 50, 0)), " "] : "", found.older ? step(found.older) : ""));
    made.push(el("p", { cls: "pale small" }, "Dots: blue on time, orange late, violet rebuilt, grey early; from left to right as they were published. Choose a number to see why it is what it is."));
    return made;
  }

  const MOMENTS = new Set(["event_time", "arrival_time", "first_arrival_time", "window_start", "window_end", "watermark"]);
  function events(found) {
    if (!found.events.length) return el("p", { cls: "state" }, "None to show.");
    const names = [...new Set(found.events.flatMap(each => Object.keys(each)))].filter(name => found.events.some(each => each[name] !== null && each[name] !== undefined));
    const shown = (name, value) => value === null || value === undefined ? "–" : MOMENTS.has(name) ? moment(value) : typeof value === "object" ? JSON.stringify(value) : String(value);
    const made = table(names, found.events.map(each => names.map(name => shown(name, each[name]))), "Events");
    made.classList.add("tall");
    return made;
  }
  async function askLedger(p, asked) {
    const found = await ask(`/api/${p}/ledger` + query(asked, ["output", "skip"]));
    if (found.empty || !asked.get("fate")) return found;
    return { ...found, fate: await ask(`/api/${p}/fate` + query(asked, ["output", "fate", "batch", "day"])) };
  }
  function showLedger(found, asked) {
    const made = [chooser("ledger", found, [el("label", {}, "Batch", el("input", { name: "batch", inputmode: "numeric", size: 8, value: asked.get("batch") || "" }))])];
    made[0].append(el("button", { type: "submit" }, "Show"));
    made[0].addEventListener("submit", event => {
      const batch = new FormData(event.target).get("batch");
      if (batch) location.hash = link("ledger", { output: found.output, fate: asked.get("fate") || "on_time", batch });
    });
    made.push(found.differences.length ? el("p", { cls: "error", role: "alert" }, "It does not balance: ", found.differences.map(each => `${each.output} ${each.unit} ${figure(each.difference)}`).join(", ")) :
      el("p", {}, tag("balances", "good"), " received is the sum of all fates, in every batch, output and unit"));
    if (!found.totals.length) return [...made, el("p", { cls: "state" }, "The ledger is empty: nothing has been received.")];
    const heads = first => [...first, { name: "received", n: true }, ...Object.values(FATES).map(name => ({ name, n: true }))];
    // In the totals, sums of measures may have decimals; counts have none.
    const amount = row => ["events", "assignments", undefined].includes(row.unit) ? count : figure;
    const cells = (row, given) => [amount(row)(row.received), ...Object.keys(FATES).map(fate => Number(row[fate]) && given ? el("a", { href: link("ledger", { output: found.output, fate, ...given }) }, count(row[fate])) : amount(row)(row[fate]))];
    made.push(el("h2", {}, "Totals"), table(heads(["output", "unit"]), found.totals.map(row => [row.output, row.unit, ...cells(row, row.unit === "events" ? { output: row.output } : null)]), "Totals"));
    if (found.fate) {
      const where = asked.get("batch") ? "batch " + asked.get("batch") : asked.get("day") || "the newest";
      made.push(el("section", { id: "fate" }, el("h2", {}, `${FATES[found.fate.fate]}: ${found.output}, ${where}`),
        el("p", {}, Object.entries(FATES).map(([fate, words]) => [el("a", { href: link("ledger", { output: found.output, fate, batch: asked.get("batch"), day: asked.get("day") }), "aria-current": fate === found.fate.fate ? "true" : null }, words), " "]),
          el("a", { href: link("ledger", { output: found.output }) }, "close")),
        found.fate.notes.map(note => el("p", { cls: "warning" }, note)), events(found.fate),
        found.fate.more && el("p", { cls: "pale" }, `The first ${count(found.fate.events.length)} are shown.`)));
    }
    if (found.days.length) made.push(el("h2", {}, `Days of publication (${zone(found.output)}): ${found.output}`), table(heads(["day", { name: "batches", n: true }]), found.days.map(row => [row.day, count(row.batches), ...cells(row, { day: row.day })]), "Days"));
    if (found.batches.length) made.push(el("h2", {}, "Batches: " + found.output), table(heads([{ name: "batch", n: true }, `published (${zone(found.output)})`]), found.batches.map(row => [String(row.batch), second(row.published_at), ...cells(row, { batch: row.batch })]), "Batches"),
      el("p", {}, found.skip ? [el("a", { href: link("ledger", { output: found.output, skip: Math.max(found.skip - 100, 0) || "" }) }, "newer"), " "] : "",
        found.batches.length === 100 ? el("a", { href: link("ledger", { output: found.output, skip: found.skip + 100 }) }, "older") : ""));
    for (const row of found.removals) made.push(el("p", { cls: "pale small" }, `Retention has removed ${count(row.amount)} ${row.unit || "rows"} of ${row.table}${row.output ? " of " + row.output : ""}, batches ${row.first_batch} to ${row.last_batch}.`));
    return made;
  }

  function showLateness(found) {
    if (!found.events) return [el("p", { cls: "state" }, "There is no event to measure yet.")];
    const made = [el("p", { cls: "pale" }, `${counted(found.events, "event")} that arrived from ${moment(found.since)} to ${moment(found.until)}` +
      (found.of_events > found.events ? `, a sample of ${count(found.of_events)}; a share is right to within ${share(found.sampling_error)}` : ""))];
    for (const each of found.cautions) made.push(el("p", { cls: "warning" }, each));
    made.push(el("div", { cls: "cards wide" }, found.delays.map(each => el("section", { cls: "card" }, el("h2", { cls: "small" }, each.title), el("p", { cls: "pale" }, each.below),
      plot(each.svg, each.title), el("dl", { cls: "numbers" }, Object.entries(each.percentiles).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))), each.about.map(text => el("p", { cls: "pale" }, text)))),
      found.outputs.map(each => el("section", { cls: "card" }, el("h2", { cls: "small" }, "Completeness by delay: ", each.name), el("p", { cls: "pale" }, each.window, each.curves.map((name, nth) => [" ", draw("svg", { class: "key", viewBox: "0 0 1 1", "aria-hidden": "true" }, draw("rect", { class: "curve" + nth, width: 1, height: 1 })), name])), plot(each.svg, each.name),
        table(["setting", { name: "delay", n: true }, { name: "allowed lateness", n: true }, { name: "on time", n: true }, { name: "complete", n: true }], each.settings.map(row => [row.which, row.delay, row.lateness ?? "–", share(row.on_time), share(row.complete)]), "Settings")))));
    made.push(el("h2", {}, "Advice"), table(["setting", "advised", "now", { name: "why", text: true }], found.advised.map(each => [each.field, each.advised, each.changes ? each.now ?? "not set" : tag("as it is", "good"), each.reason]), "Advice"));
    for (const note of found.notes) made.push(el("p", { cls: "pale small" }, note));
    return made;
  }

  const valuesText = values => Object.entries(values).map(([name, value]) => `${name} ${value === null ? "null" : figure(value)}`).join(", ");
  function showExplain(found, asked) {
    const made = [chooser("explain", found || {}, placeFields(asked))];
    if (!found) return [...made, el("p", { cls: "state" }, "Enter a window and key, or choose a number under ", el("a", { href: link("windows") }, "Windows"), ".")];
    const key = Object.entries(found.key).map(([name, value]) => `${name}=${value === null ? "null" : value}`);
    made.push(el("h2", {}, [found.output, moment(found.window.start) + " to " + moment(found.window.end), ...key].join(" · ")),
      el("p", { cls: "big" }, found.stands === null ? found.panes.length ? "nothing stands" : "nothing published" : valuesText(found.stands)));
    if (!found.reconciled) made.push(el("p", { cls: "error", role: "alert" }, "The events of the log do not add up to the panes: see the notes."));
    for (const note of found.notes) made.push(el("p", { cls: "warning" }, note));
    if (pictureUrl) URL.revokeObjectURL(pictureUrl);
    pictureUrl = URL.createObjectURL(new Blob([found.picture], { type: "image/svg+xml" }));
    made.push(el("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": "Picture" }, el("img", { cls: "picture", src: pictureUrl, alt: "The life of the number: its panes and events by when they arrived. The list below says the same." })));
    const group = (title, each) => each.count ? el("details", {}, el("summary", {}, `${title} ${counted(each.count, "event")}` + (each.behind_watermark ? `, ${count(each.behind_watermark)} behind the watermark` : "")),
      events({ events: each.events.map(({ values, ...rest }) => ({ ...rest, ...values })) }), each.count > each.events.length ? el("p", { cls: "pale small" }, `and ${count(each.count - each.events.length)} more`) : "") : el("p", { cls: "pale small" }, `${title} no event`);
    made.push(el("h2", {}, "History"), el("ol", { cls: "panes" }, found.panes.map(pane => el("li", { cls: "card" },
      el("h3", {}, tag(pane.timing.toLowerCase().replace("_", " "), { LATE: "two", CORRECTION: "three", EARLY: "calm" }[pane.timing] || "one"), ` ${pane.op} ${pane.sequence}: `,
        valuesText(pane.values)),
      el("p", { cls: "pale" }, `batch ${pane.batch}, published ${moment(pane.published_at)}, fired ${moment(pane.fired_at)}, watermark ${moment(pane.watermark)}`),
      el("p", {}, pane.why), pane.check.agrees === false ? el("p", { cls: "error" }, pane.check.reason) : "", pane.op === "insert" ? group("Took in", pane.took_in) : "",
      pane.lost.count ? group("No longer holds", pane.lost) : ""))));
    if (!found.panes.length) made.push(el("p", { cls: "pale" }, "No pane has been published."));
    if (found.in_no_pane.count) made.push(el("h2", {}, "Accepted, but in no pane yet"), group("", found.in_no_pane));
    const left = Object.entries(found.left_out).filter(([, each]) => each.count);
    if (left.length) made.push(el("h2", {}, "Left out"), left.map(([fate, each]) => group((FATES[fate] || fate) + ":", each)));
    made.push(el("p", { cls: "pale small" }, `${count(found.log.files_read)} of the ${counted(found.log.files, "file")} of the event log ${found.log.files_read === 1 ? "was" : "were"} read.`));
    return made;
  }

  // Signing in, where the page needs a token
  function signIn(wrong) {
    const field = el("input", { type: "password", id: "token", autocomplete: "current-password", size: 32 });
    main.replaceChildren(el("form", { cls: "ask", onsubmit: event => {
      event.preventDefault();
      token = field.value.trim();
      try { sessionStorage.setItem("latecomer-token", token); } catch { /* the token is asked for at the next visit */ }
      start();
    } }, el("label", {}, "Token (LATECOMER_DASHBOARD_TOKEN of who serves this page)", field), el("button", { type: "submit" }, "Open")),
      wrong ? el("p", { cls: "error", role: "alert" }, "That is not the token.") : "");
    field.focus();
  }

  // Refreshing
  async function refresh(moved) {
    clearTimeout(timer);
    const mine = ++round, { view, p, asked } = currentView(), place = location.hash;
    for (const each of document.querySelectorAll("#views a")) {
      const name = each.getAttribute("href").slice(1).split("?")[0];
      each.setAttribute("href", link(name));
      if (name === view) each.setAttribute("aria-current", "page"); else each.removeAttribute("aria-current");
    }
    document.getElementById("title").textContent = pipelines[p] ? pipelines[p].name : "latecomer";
    document.title = (pipelines[p] ? pipelines[p].name + " · " : "") + view + " · latecomer";
    if (moved && shown !== place) main.setAttribute("aria-busy", "true");
    const watching = moved && SHOW[view].slow ? measuring() : 0;
    try {
      const found = await SHOW[view].ask(p, asked).finally(() => clearInterval(watching));
      if (mine !== round) return;
      const what = place + JSON.stringify(found);
      if (what !== shown) paint(found && found.empty ? [el("p", { cls: "state" }, "Nothing to show yet: ", found.empty, ". This page refreshes by itself.")] : SHOW[view].show(found, asked));
      shown = what;
      painted = place;
      say(`Up to date · ${new Date(clock()).toISOString().slice(11, 19)} UTC`);
    } catch (error) {
      if (mine !== round) return;
      if (error.status === 401) { shown = ""; painted = null; say("Locked"); return signIn(token !== null); }
      failed(error, view, asked, moved);
    } finally {
      if (mine === round) { main.removeAttribute("aria-busy"); timer = setTimeout(() => refresh(false), EVERY); }
    }
  }
  // Shows for how long an answer has been made that takes long.
  function measuring() {
    const began = clock(), words = el("p", { cls: "state", role: "status" }, "Measuring how late events come …");
    main.replaceChildren(words);
    return setInterval(() => { words.textContent = `Measuring how late events come … (${span((clock() - began) / 1000)})`; }, 1000);
  }
  function failed(error, view, asked, moved) {
    const gone = !(error instanceof Refused);
    say(gone ? "The dashboard does not answer; trying again" : "Cannot be shown");
    if (gone && shown && !moved) return;  // keep what was shown last
    shown = "";
    painted = null;
    const form = view === "windows" || view === "explain" ? chooser(view, {}, placeFields(asked)) : "";
    paint([form, el("p", { cls: "error", role: "alert" }, gone ? "The dashboard does not answer. Is latecomer dashboard still running?" : error.message)]);
  }
  let lastState = "";
  function say(text) {
    // A screen reader announces changes of state, not every update.
    const state = text.split(" · ")[0];
    live.setAttribute("aria-live", state === lastState ? "off" : "polite");
    lastState = state;
    live.textContent = text;
  }
  function paint(children) {
    const focus = document.activeElement, path = [];
    for (let each = focus; each && each !== main && main.contains(each); each = each.parentElement) path.unshift([...each.parentElement.children].indexOf(each));
    const typing = focus && main.contains(focus) && focus.tagName === "INPUT";
    if (typing && painted === location.hash) return;  // do not repaint while somebody types
    const open = [...main.querySelectorAll("details")].map(each => each.open), y = scrollY, x = [...main.querySelectorAll(".scroll")].map(each => each.scrollLeft);
    main.replaceChildren(...children.flat(9).filter(each => each !== null && each !== undefined && each !== false && each !== ""));
    if (painted === location.hash) {
      [...main.querySelectorAll("details")].forEach((each, nth) => { each.open = open[nth] || false; });
      [...main.querySelectorAll(".scroll")].forEach((each, nth) => { each.scrollLeft = x[nth] || 0; });
      scrollTo(0, y);
      let again = main;
      for (const nth of path) again = again && again.children[nth];
      if (path.length && again && again.focus) again.focus({ preventScroll: true });
    }
  }
  setInterval(() => {
    for (const each of document.querySelectorAll("[data-since]")) each.textContent = span((clock() - Number(each.dataset.since)) / 1000);
  }, 1000);
  async function start() {
    try {
      pipelines = await ask("/api/pipelines");
    } catch (error) {
      if (error.status === 401) { say("Locked"); return signIn(token !== null); }
      failed(error, "now", new URLSearchParams(), true);
      timer = setTimeout(start, EVERY);
      return;
    }
    const select = document.getElementById("pipeline");
    select.replaceChildren(...pipelines.map((each, nth) => el("option", { value: nth }, each.name)));
    select.value = String(currentView().p);
    document.getElementById("choose").hidden = pipelines.length < 2;
    select.onchange = () => { location.hash = `#${currentView().view}?p=${select.value}`; };
    refresh(true);
  }
  addEventListener("hashchange", () => { if (pipelines.length) { refresh(true); scrollTo(0, 0); } });
  document.addEventListener("visibilitychange", () => { clearTimeout(timer); if (!document.hidden && pipelines.length) refresh(false); });
  start();
})();
