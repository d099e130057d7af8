"use strict";
(() => {
  const { states, edges } = JSON.parse(document.getElementById("graph").textContent);
  const stage = document.getElementById("stage"), svg = stage.querySelector("svg");
  const about = document.getElementById("about"), search = document.getElementById("search");
  const found = document.getElementById("found"), fates = [...document.querySelectorAll("button.fate")];
  const boxes = [...svg.querySelectorAll(".states > .state")], lines = [...svg.querySelectorAll(".edges > .edge")];
  const needs = states.map(() => []), needed = states.map(() => []);
  edges.forEach(([from, to], edge) => { needs[to].push(edge); needed[from].push(edge); });

  // Pan and zoom: only the view box moves.
  const whole = svg.viewBox.baseVal, size = { width: whole.width, height: whole.height };
  const view = { x: 0, y: 0, scale: 1 };
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  svg.setAttribute("preserveAspectRatio", "xMinYMin");
  const show = () => {
    const { clientWidth, clientHeight } = stage;
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${clientWidth / view.scale} ${clientHeight / view.scale}`);
  };
  const fit = (least, most) => {
    const { clientWidth, clientHeight } = stage, edge = 24;
    const scale = Math.min((clientWidth - 2 * edge) / size.width, (clientHeight - 2 * edge) / size.height);
    view.scale = Math.min(Math.max(scale, least), most);
    view.x = Math.min(-edge / view.scale, (size.width - clientWidth / view.scale) / 2);
    view.y = Math.min(-edge / view.scale, (size.height - clientHeight / view.scale) / 2);
    // What does not fit begins at its beginning.
    if (size.width * view.scale > clientWidth - edge) view.x = -edge / view.scale;
    if (size.height * view.scale > clientHeight - edge) view.y = -edge / view.scale;
    show();
  };
  const zoom = (factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) => {
    const scale = Math.min(Math.max(view.scale * factor, 0.005), 6);
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    show();
  };
  const bringIntoView = (state) => {
    const { clientWidth, clientHeight } = stage, { x, y } = states[state];
    if (view.scale < 0.5) view.scale = 0.8;
    const left = (x - view.x) * view.scale, top = (y - view.y) * view.scale;
    if (left < 120 || left > clientWidth - 120) view.x = x - clientWidth / 2 / view.scale;
    if (top < 40 || top > clientHeight - 40) view.y = y - clientHeight / 2 / view.scale;
    show();
  };
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { left, top } = stage.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-event.deltaY * lines * 0.0016), event.clientX - left, event.clientY - top);
  }, { passive: false });
  const fingers = new Map();
  let moved = 0;
  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, event);
    moved = 0;
  });
  addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    if (other) {
      const { left, top } = stage.getBoundingClientRect();
      const distance = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
      zoom(distance(event) / distance(before), other.clientX - left, other.clientY - top);
    } else {
      view.x -= (event.clientX - before.clientX) / view.scale;
      view.y -= (event.clientY - before.clientY) / view.scale;
      show();
    }
    moved += Math.abs(event.clientX - before.clientX) + Math.abs(event.clientY - before.clientY);
    stage.classList.add("dragging");
    fingers.set(event.pointerId, event);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    addEventListener(kind, (event) => { fingers.delete(event.pointerId); stage.classList.remove("dragging"); });
  }

  // What hangs on a state, and what it hangs on, stays bright.
  let lit = [];
  const light = (state) => {
    lit.forEach((element) => element.classList.remove("lit"));
    lit = [];
    svg.classList.toggle("lighting", state !== null);
    if (state === null) return;
    const brighten = (element) => { element.classList.add("lit"); lit.push(element); };
    brighten(boxes[state]);
    for (const [next, end] of [[needs, 0], [needed, 1]]) {
      const seen = new Set([state]), open = [state];
      while (open.length) {
        for (const edge of next[open.pop()]) {
          brighten(lines[edge]);
          const other = edges[edge][end];
          if (!seen.has(other)) { seen.add(other); open.push(other); brighten(boxes[other]); }
        }
      }
    }
  };

  // The panel.
  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  };
  const listed = (heading, list, end) => {
    if (!list.length) return;
    make("h3", heading, about);
    const items = make("ul", "", about);
    for (const edge of list) {
      const item = make("li", `${edges[edge][2]} `, items), other = edges[edge][end];
      make("button", states[other].name, item).addEventListener("click", () => choose(other, true));
    }
  };
  const tell = (state) => {
    about.replaceChildren();
    about.hidden = state === null;
    if (state === null) return;
    const { name, level, place, fate, remark } = states[state];
    const close = make("button", "×", about);
    close.className = "close";
    close.setAttribute("aria-label", "close");
    close.addEventListener("click", () => choose(null));
    make("h2", name, about);
    make("p", [place, `level ${level}`, fate === "unknown" ? "" : fate].filter(Boolean).join(" · "), about);
    if (remark) {
      const pre = make("pre", "", about), isDiff = /^(---|@@) /m.test(remark);
      for (const line of remark.replace(/\n$/, "").split("\n")) {
        const shown = make("span", `${line}\n`, pre);
        if (!isDiff || /^(---|\+\+\+|@@) /.test(line)) continue;
        shown.className = line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
      }
    }
    listed("waits for", needs[state], 0);
    listed("waited for by", needed[state], 1);
  };

  // One state at a time takes part in the order of tabs; arrows move from there.
  let chosen = null, stop = 0;
  const choose = (state, move = false) => {
    if (chosen !== null) boxes[chosen].classList.remove("chosen");
    chosen = state;
    light(state);
    tell(state);
    if (state === null) return;
    boxes[stop].setAttribute("tabindex", "-1");
    stop = state;
    boxes[state].setAttribute("tabindex", "0");
    boxes[state].classList.add("chosen");
    if (move) {
      boxes[state].focus({ preventScroll: true });
      bringIntoView(state);
    }
  };
  boxes.forEach((box, state) => {
    const { name, place, fate } = states[state];
    box.setAttribute("tabindex", state ? "-1" : "0");
    box.setAttribute("role", "button");
    box.setAttribute("aria-label", [name, fate === "unknown" ? "" : fate, place].filter(Boolean).join(", "));
    box.addEventListener("pointerenter", () => { if (chosen === null && !fingers.size) light(state); });
    box.addEventListener("pointerleave", () => { if (chosen === null) light(null); });
    box.addEventListener("click", () => { if (moved < 5) choose(state); });
    box.addEventListener("focus", () => { if (box.matches(":focus-visible") && chosen !== state) choose(state, true); });
  });
  svg.setAttribute("role", "group");
  stage.addEventListener("click", (event) => { if (moved < 5 && !event.target.closest(".state")) choose(null); });
  const nearest = (state, candidates) => {
    const { x, y } = states[state];
    const far = (other) => Math.abs(states[other].y - y) + Math.abs(states[other].x - x) / 8;
    return candidates.reduce((best, other) => (best === null || far(other) < far(best) ? other : best), null);
  };
  const beside = (state, key) => {
    const { x, y } = states[state], all = [...states.keys()];
    switch (key) {
      case "ArrowLeft": return nearest(state, needs[state].map((edge) => edges[edge][0]));
      case "ArrowRight": return nearest(state, needed[state].map((edge) => edges[edge][1]));
      case "ArrowUp": return nearest(state, all.filter((other) => states[other].x === x && states[other].y < y));
      case "ArrowDown": return nearest(state, all.filter((other) => states[other].x === x && states[other].y > y));
      default: return null;
    }
  };

  // Search and the buttons of the fates narrow down together.
  let matches = [];
  const narrow = () => {
    const word = search.value.trim().toLowerCase();
    const wanted = fates.filter((button) => button.getAttribute("aria-pressed") === "true").map((button) => button.dataset.fate);
    const active = Boolean(word || wanted.length);
    matches = [];
    states.forEach(({ name, fate }, state) => {
      const match = active && name.toLowerCase().includes(word) && (!wanted.length || wanted.includes(fate));
      boxes[state].classList.toggle("match", match);
      if (match) matches.push(state);
    });
    svg.classList.toggle("finding", active);
    found.textContent = active ? `${matches.length} of ${states.length}` : "";
  };
  search.addEventListener("input", () => { choose(null); narrow(); });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !matches.length) return;
    const next = matches[(matches.indexOf(chosen) + (event.shiftKey ? matches.length - 1 : 1)) % matches.length];
    choose(next);
    bringIntoView(next);
  });
  fates.forEach((button) => button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    choose(null);
    narrow();
  }));
  document.getElementById("in").addEventListener("click", () => zoom(1.3));
  document.getElementById("out").addEventListener("click", () => zoom(1 / 1.3));
  document.getElementById("fit").addEventListener("click", () => fit(0, 1.5));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      search.value = "";
      fates.forEach((button) => button.setAttribute("aria-pressed", "false"));
      narrow();
      choose(null);
    }
    if (event.target === search) return;
    const state = boxes.indexOf(document.activeElement), next = state < 0 ? null : beside(state, event.key);
    if (next !== null) choose(next, true);
    else if (event.key === "/") search.focus();
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit(0, 1.5);
    else if (!(state >= 0 && (event.key.startsWith("Arrow") || event.key === "Enter" || event.key === " "))) return;
    else if (!event.key.startsWith("Arrow")) choose(state);
    event.preventDefault();
  });
  addEventListener("resize", show);
  fit(0.6, 1.25);
  // Where not everything fits, the first level may begin far below the top.
  if (size.height * view.scale > stage.clientHeight) {
    const first = states.filter(({ level }) => level === states[0].level).map(({ y }) => y);
    const top = first.reduce((least, y) => Math.min(least, y), Infinity);
    if ((top - view.y) * view.scale > stage.clientHeight / 2) view.y = top - 100 / view.scale;
    show();
  }
})();
