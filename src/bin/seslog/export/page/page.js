"use strict";
// Shows the lines of #log. Text of a log only ever becomes text nodes: nothing here parses it as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const lines = $("log").textContent.split("\n").filter((line) => line !== "");
  $("log").textContent = "";
  const FOLD = 4000; // characters of a text that are shown before it is unfolded
  const SLICE = 12; // milliseconds of filtering between two looks at the person
  const HEIGHT_MAX = 15e6; // pixels that every browser can scroll

  const kind = (line) => line.charAt(6);
  const parse = (index) => JSON.parse(lines[index]);
  const header = lines.length > 0 && kind(lines[0]) === "h" ? parse(0).header : {};
  // An attempt stands in the chat only if no message came of it.
  const isLost = (index) => lines[index].startsWith('{"k":"a","lost":true');
  const all = { m: [], a: [], e: [] };
  let title = "";
  lines.forEach((line, index) => {
    all[kind(line)]?.push(index);
    if (kind(line) === "e" && line.includes('"type":"session/title"')) {
      try { title = JSON.parse(JSON.parse(line).data).title ?? title; } catch { /* cut: it has no title */ }
    }
  });

  const state = { view: "chat", events: false, query: "", shown: [], current: -1, open: new Set(), longest: 1 };

  // Elements ------------------------------------------------------------------------------------------------------------

  function el(name, className, ...children) {
    const node = document.createElement(name);
    if (className) node.className = className;
    node.append(...children);
    return node;
  }

  // The text with what the filter looks for marked.
  function marked(text) {
    const query = state.query;
    if (!query) return [text];
    const parts = [];
    const lower = text.toLowerCase();
    // Where lower case has another length, places do not match.
    if (lower.length !== text.length) return [text];
    let at = 0;
    for (let found; (found = lower.indexOf(query, at)) >= 0; at = found + query.length) {
      parts.push(text.slice(at, found), el("mark", "", text.slice(found, found + query.length)));
    }
    parts.push(text.slice(at));
    return parts;
  }

  // A long text is folded, unless what is looked for stands behind the fold.
  function long(key, text, make) {
    const box = el("div", "");
    const hit = state.query && text.toLowerCase().indexOf(state.query, FOLD - state.query.length) >= 0;
    if (text.length <= FOLD * 1.25 || hit || state.open.has(key)) {
      box.append(make(text));
      return box;
    }
    const more = el("button", "more", `Show all ${text.length.toLocaleString()} characters`);
    more.addEventListener("click", () => {
      state.open.add(key);
      box.replaceChildren(make(text));
      list.measure();
    });
    box.append(make(text.slice(0, FOLD) + " …"), more);
    return box;
  }

  // Text with its code blocks set apart.
  function prose(text) {
    const box = el("div", "");
    const fence = /^ {0,3}(```+|~~~+)[^\n]*$/gm;
    let at = 0;
    for (let open; (open = fence.exec(text));) {
      const close = new RegExp(`^ {0,3}${open[1]}[${open[1][0]}]*[ \\t]*$`, "gm");
      close.lastIndex = fence.lastIndex;
      const end = close.exec(text);
      if (open.index > at) box.append(el("div", "text", ...marked(text.slice(at, open.index).replace(/\n$/, ""))));
      box.append(el("pre", "", ...marked(text.slice(fence.lastIndex + 1, end ? Math.max(end.index - 1, fence.lastIndex + 1) : text.length))));
      at = end ? close.lastIndex + 1 : text.length;
      fence.lastIndex = at;
    }
    const rest = at > 0 ? text.slice(at).replace(/^\n+/, "") : text;
    if (rest !== "") box.append(el("div", "text", ...marked(rest)));
    return box;
  }

  const pre = (text) => el("pre", "", ...marked(text));
  const str = (value) => (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value));
  const resultText = (block) => (Array.isArray(block.content) ? block.content : [])
    .map((inner) => (typeof inner?.text === "string" ? inner.text : `[${str(inner?.type)}]`)).join("\n");
  function pretty(json) {
    try { return JSON.stringify(JSON.parse(json), null, 2); } catch { return json; }
  }

  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
  const when = (ms) => (Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? clock.format(ms) : "");
  function span(ms) {
    if (!(ms >= 0)) return "-";
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
    return `${Math.floor(ms / 60000)} min ${Math.floor((ms % 60000) / 1000)} s`;
  }

  function block(index, at, item) {
    const key = `${index}.${at}`;
    switch (item?.type) {
      case "text": return long(key, str(item.text), prose);
      case "reasoning": {
        const text = str(item.text);
        const box = el("details", "", el("summary", "", `Thinks, ${text.length.toLocaleString()} characters`));
        const fill = () => { if (box.children.length < 2) box.append(long(key, text, prose)); };
        if (state.open.has(`${key}r`) || (state.query && text.toLowerCase().includes(state.query))) {
          box.open = true;
          fill();
        }
        box.addEventListener("toggle", () => {
          if (box.open) { state.open.add(`${key}r`); fill(); } else state.open.delete(`${key}r`);
          list.measure();
        });
        return box;
      }
      case "tool-call":
        return el("div", "", el("div", "what", "calls ", el("b", "", ...marked(str(item.name))), ` ${str(item.id)}`),
          long(key, pretty(str(item.arguments)), pre));
      case "tool-result":
        return el("div", "", el("div", item.isError === true ? "what failed" : "what", item.isError === true ? "error of " : "result of ", str(item.toolCallId)),
          long(key, resultText(item), pre));
      default: return el("div", "what", `[${str(item?.type)}]`);
    }
  }

  function message(index, item) {
    const role = str(item.role);
    const by = el("div", "by", el("b", "", ...marked(role)), el("span", "", `#${item.seq}`), el("span", "", when(item.time)));
    if (item.model) by.append(el("span", "", ...marked(str(item.model))));
    if (item.interrupted) by.append(el("span", "warn", "interrupted"));
    if (item.replaces) by.append(el("span", "warn", `for the model instead of #${item.replaces[0]} to #${item.replaces[1]}`));
    const blocks = (Array.isArray(item.content) ? item.content : []).map((part, at) => block(index, at, part));
    const look = role === "user" || role === "tool" || role === "assistant" ? role : "other";
    return el("article", look, el("div", "card", by, ...blocks));
  }

  function event(item) {
    const text = item.data === undefined ? "" : ` ${item.data}`;
    return el("article", "event", el("div", "card", el("div", "text", `#${item.seq} `, ...marked(item.type), ...marked(text))));
  }

  function outcome(attempt) {
    const more = attempt.failureCode ?? (attempt.finish && attempt.finish !== attempt.outcome && !["stop", "tool-calls"].includes(attempt.finish) ? attempt.finish : "");
    return more ? `${attempt.outcome} (${more})` : attempt.outcome;
  }

  function lost(index, item) {
    const attempt = item.attempt;
    const by = el("div", "by", el("b", "", "attempt"), el("span", "", `#${attempt.seq}`), el("span", "", when(attempt.time)), el("span", "warn", ...marked(outcome(attempt))));
    const card = el("div", "card", by);
    if (item.said) card.append(long(`${index}.0`, item.said, prose));
    return el("article", "assistant", card);
  }

  function attemptRow(item) {
    const { attempt, bins } = item;
    const most = Math.max(1, ...bins);
    const track = el("div", "track");
    const wait = Math.max(0, attempt.firstTokenSinceStepMs ?? attempt.firstTokenMs ?? 0);
    const streams = Math.max(0, (attempt.durationMs ?? 0) - Math.max(0, attempt.firstTokenMs ?? 0));
    const pause = el("div", "wait");
    pause.style.width = `${(100 * wait) / state.longest}%`;
    pause.title = `waits ${span(wait)}`;
    const rate = el("div", "bins");
    rate.style.width = `${(100 * streams) / state.longest}%`;
    rate.title = `streams ${span(streams)}`;
    const first = bins.findIndex((count) => count > 0);
    for (const count of first < 0 ? [] : bins.slice(first)) {
      const bin = el("i", "");
      bin.style.height = `${(100 * count) / most}%`;
      rate.append(bin);
    }
    track.append(pause, rate);
    const cells = [`#${attempt.seq}`, `${attempt.turn}.${attempt.step}`, outcome(attempt), track, span(attempt.firstTokenSinceStepMs ?? attempt.firstTokenMs),
      span(attempt.durationMs), String(attempt.tokens ?? ""), attempt.tokensPerSecond === undefined ? "-" : attempt.tokensPerSecond.toFixed(1)];
    const row = el("div", "row", ...cells.map((cell) => el("span", "", ...(typeof cell === "string" ? marked(cell) : [cell]))));
    if (!["message"].includes(attempt.outcome)) row.children[2].className = "failed";
    const card = el("div", "card", row);
    card.title = `${when(attempt.time)}; input ${attempt.inputTokens ?? "?"}, output ${attempt.outputTokens ?? "?"} tokens`;
    card.addEventListener("click", () => jump(attempt.seq));
    return el("article", "attempt", card);
  }

  function render(place) {
    const index = state.shown[place];
    const item = parse(index);
    let node;
    if (item.k === "m") node = message(index, item);
    else if (item.k === "e") node = event(item);
    else node = state.view === "timeline" ? attemptRow(item) : lost(index, item);
    node.dataset.seq = String(item.seq ?? item.attempt.seq);
    node.dataset.kind = item.k;
    node.tabIndex = -1;
    node.setAttribute("aria-posinset", String(place + 1));
    node.setAttribute("aria-setsize", String(state.shown.length));
    return node;
  }

  // The list: heights are guessed until an item was on the screen, and only what is there has nodes. ------------------------

  const list = {
    box: $("list"), space: $("space"), window: $("window"), heights: new Float64Array(0), tops: new Float64Array(1), nodes: new Map(), scale: 1,
    reset(keep) {
      this.window.replaceChildren();
      this.nodes.clear();
      const guess = state.view === "timeline" ? 36 : 120;
      this.heights = new Float64Array(state.shown.length).fill(guess);
      this.retop(0);
      this.box.scrollTop = 0;
      if (keep >= 0) this.go(keep); else this.paint();
    },
    retop(from) {
      if (this.tops.length !== this.heights.length + 1) this.tops = new Float64Array(this.heights.length + 1), from = 0;
      for (let at = from; at < this.heights.length; at++) this.tops[at + 1] = this.tops[at] + this.heights[at];
      const height = this.tops[this.heights.length];
      // A list that is too high to scroll is pressed together: places on the scroll bar stay in proportion.
      this.scale = Math.max(1, height / HEIGHT_MAX);
      this.space.style.height = `${height / this.scale}px`;
    },
    at(y) {
      let low = 0, high = this.heights.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
      }
      return Math.min(low, Math.max(0, this.heights.length - 1));
    },
    // Paints so that item `anchor` has its top `offset` pixels above the top of the box.
    paint(anchor = -1, offset = 0) {
      if (state.shown.length === 0) {
        this.window.replaceChildren(el("p", "none", state.query ? "Nothing matches the filter." : "Nothing is here."));
        this.window.style.top = "0px";
        return;
      }
      const view = this.box.clientHeight || 800;
      if (anchor < 0) {
        const y = this.box.scrollTop * this.scale;
        anchor = this.at(y);
        offset = y - this.tops[anchor];
      }
      let first, last;
      for (let round = 0; round < 6; round++) {
        const y = this.tops[anchor] + offset;
        first = Math.max(0, this.at(Math.max(0, y - view / 2)));
        last = Math.min(this.heights.length - 1, this.at(y + view * 1.5));
        for (const [place, node] of this.nodes) {
          if (place < first || place > last) { node.remove(); this.nodes.delete(place); }
        }
        this.window.querySelector(".none")?.remove();
        let before = null;
        for (let place = last; place >= first; place--) {
          let node = this.nodes.get(place);
          if (!node) {
            node = render(place);
            this.nodes.set(place, node);
            this.window.insertBefore(node, before);
          }
          node.classList.toggle("current", place === state.current);
          before = node;
        }
        if (!this.learn()) break;
      }
      const y = Math.max(0, this.tops[anchor] + offset);
      const scroll = y / this.scale;
      if (Math.abs(this.box.scrollTop - scroll) >= 1) this.box.scrollTop = scroll;
      this.window.style.top = `${this.box.scrollTop + this.tops[first] - (this.scale === 1 ? this.box.scrollTop : y)}px`;
    },
    // Takes the heights of what is on the screen; says whether one was another than guessed.
    learn() {
      let from = -1;
      for (const [place, node] of this.nodes) {
        const height = node.offsetHeight;
        if (height > 0 && Math.abs(height - this.heights[place]) >= 1) {
          this.heights[place] = height;
          if (from < 0 || place < from) from = place;
        }
      }
      if (from >= 0) this.retop(from);
      return from >= 0;
    },
    measure() { this.paint(); },
    go(place) {
      if (state.shown.length === 0) return;
      state.current = Math.max(0, Math.min(state.shown.length - 1, place));
      this.paint(state.current, -8);
      this.nodes.get(state.current)?.focus({ preventScroll: true });
    },
  };

  // Which lines are shown ---------------------------------------------------------------------------------------------------

  function wanted() {
    if (state.view === "timeline") return all.a;
    return lines.map((_, index) => index).filter((index) => {
      const of = kind(lines[index]);
      return of === "m" || (of === "e" ? state.events : of === "a" && isLost(index));
    });
  }

  function words(item) {
    if (item.k === "e") return `${item.type} ${item.data ?? ""}`;
    if (item.k === "a") return `#${item.attempt.seq} ${outcome(item.attempt)} ${item.said ?? ""}`;
    const blocks = (Array.isArray(item.content) ? item.content : []).map((part) => {
      switch (part?.type) {
        case "tool-call": return `${str(part.name)} ${pretty(str(part.arguments))}`;
        case "tool-result": return resultText(part);
        default: return str(part?.text);
      }
    });
    return `${str(item.role)} ${str(item.model)} #${item.seq} ${blocks.join("\n")}`;
  }

  let job = 0;
  function update(keepSeq) {
    const mine = ++job;
    const from = wanted();
    const found = [];
    let at = 0;
    const finish = () => {
      state.shown = found;
      const place = keepSeq === undefined ? -1 : found.findIndex((index) => seqOf(index) === keepSeq);
      state.current = place;
      $("count").textContent = state.query ? `${found.length} of ${from.length}` : `${from.length} ${state.view === "timeline" ? "attempts" : "items"}`;
      document.body.dataset.job = String(mine);
      list.reset(place);
    };
    const slice = () => {
      if (mine !== job) return;
      const end = performance.now() + SLICE;
      while (at < from.length) {
        const index = from[at++];
        if (!state.query || words(parse(index)).toLowerCase().includes(state.query)) found.push(index);
        if (state.query && performance.now() > end) {
          $("count").textContent = `${Math.floor((100 * at) / from.length)} %`;
          setTimeout(slice);
          return;
        }
      }
      finish();
    };
    slice();
  }

  function seqOf(index) {
    const found = /"seq":(\d+)/.exec(lines[index]);
    return found ? Number(found[1]) : -1;
  }

  function show(view, keepSeq) {
    state.view = view;
    document.body.className = view;
    $("tab-chat").setAttribute("aria-selected", String(view === "chat"));
    $("tab-timeline").setAttribute("aria-selected", String(view === "timeline"));
    $("head").hidden = view !== "timeline";
    if (view === "timeline" && state.longest === 1) {
      for (const index of all.a) {
        const attempt = parse(index).attempt;
        const wait = Math.max(0, (attempt.firstTokenSinceStepMs ?? 0) - (attempt.firstTokenMs ?? 0));
        state.longest = Math.max(state.longest, wait + Math.max(0, attempt.durationMs ?? 0));
      }
    }
    update(keepSeq);
  }

  function jump(seq) {
    $("filter").value = state.query = "";
    show("chat", seq);
  }

  function toggleEvents() {
    const seq = state.current >= 0 ? seqOf(state.shown[state.current]) : undefined;
    state.events = !state.events;
    $("events").setAttribute("aria-pressed", String(state.events));
    show("chat", seq);
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = dark.matches ? "dark" : "light";
  const paintTheme = () => { document.documentElement.dataset.theme = theme; };
  dark.addEventListener("change", () => { theme = dark.matches ? "dark" : "light"; paintTheme(); });
  const toggleTheme = () => { theme = theme === "dark" ? "light" : "dark"; paintTheme(); };
  const toggleHelp = () => {
    $("help").hidden = !$("help").hidden;
    $("keys").setAttribute("aria-expanded", String(!$("help").hidden));
    list.measure();
  };

  // Hands ---------------------------------------------------------------------------------------------------------------------

  let typing = 0;
  $("filter").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { state.query = $("filter").value.trim().toLowerCase(); update(); }, 120);
  });
  $("tab-chat").addEventListener("click", () => show("chat"));
  $("tab-timeline").addEventListener("click", () => show("timeline"));
  $("events").addEventListener("click", toggleEvents);
  $("theme").addEventListener("click", toggleTheme);
  $("keys").addEventListener("click", toggleHelp);
  list.box.addEventListener("scroll", () => list.paint(), { passive: true });
  addEventListener("resize", () => list.paint());

  function unfold() {
    const node = list.nodes.get(state.current);
    if (!node) return;
    if (state.view === "timeline") return jump(Number(node.dataset.seq));
    node.querySelectorAll("details:not([open])").forEach((box) => { box.open = true; });
    node.querySelectorAll("button.more").forEach((more) => more.click());
  }

  const keys = {
    j: () => list.go(state.current + 1), ArrowDown: () => list.go(state.current + 1),
    k: () => list.go(state.current - 1), ArrowUp: () => list.go(state.current - 1),
    g: () => list.go(0), Home: () => list.go(0),
    G: () => list.go(state.shown.length - 1), End: () => list.go(state.shown.length - 1),
    Enter: unfold, "/": () => $("filter").focus(), c: () => show("chat"), t: () => show("timeline"),
    e: toggleEvents, d: toggleTheme, "?": toggleHelp,
  };
  addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey) return;
    if (press.key === "Escape") {
      if (state.query || $("filter").value) { $("filter").value = state.query = ""; update(); }
      list.box.focus();
      return;
    }
    const on = press.target;
    if (on instanceof HTMLInputElement) {
      if (press.key === "Enter" || press.key === "ArrowDown") { press.preventDefault(); list.go(0); }
      return;
    }
    if (press.key === "Enter" && on instanceof Element && on.closest("button, summary")) return;
    const act = keys[press.key];
    if (act) { press.preventDefault(); act(); }
  });

  const id = str(header.id);
  document.title = $("title").textContent = title || `Session ${id}`;
  $("about").textContent = [title ? id : "", str(header.cwd), when(header.createdAt), `${all.m.length} messages, ${all.a.length} attempts`].filter(Boolean).join(" · ");
  paintTheme();
  // #timeline, or #12 for the event of that number.
  const place = location.hash.slice(1);
  show(place === "timeline" ? "timeline" : "chat", /^[0-9]+$/.test(place) ? Number(place) : undefined);
  document.body.dataset.ready = "1";
})();
