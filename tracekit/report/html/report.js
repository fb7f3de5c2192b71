"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement;

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  // Numbers, as the Python side writes them.
  const STEPS = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  function digits(value) {
    if (value === 0) return "0";
    const size = Math.abs(Number(value.toPrecision(3)));
    return value.toFixed(Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(size)))));
  }
  function si(value, unit) {
    if (value === null || value === undefined) return "-";
    const [step, prefix] = STEPS.find(([step]) => Math.abs(value) >= step * 0.9995) ?? [1, ""];
    return `${digits(value / step)} ${prefix}${unit}`;
  }
  function duration(ns) {
    if (ns === null || ns === undefined) return "-";
    const [step, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([step]) => Math.abs(ns) >= step * 0.9995) ?? [1, "ns"];
    return `${digits(ns / step)} ${unit}`;
  }
  const percent = (share) =>
    share === null || share === undefined ? "-" : share > 0 && share < 0.0005 ? "<0.1 %" : `${digits(100 * share)} %`;
  const plainNumber = (value) => (value === null || value === undefined ? "-" : digits(value));

  // The kernel table.
  const rows = data.kernels.rows;
  const PAGE = 100;
  const COLUMNS = [
    { key: "name", title: "Kernel", text: (row) => row.name },
    { key: "phase", title: "Phase", text: (row) => row.phase },
    { key: "family", title: "Family", text: (row) => row.family },
    { key: "ns", title: "Time", number: true, text: (row) => duration(row.ns) },
    { key: "share", title: "Share", number: true, text: (row) => percent(row.share) },
    { key: "count", title: "Calls", number: true, text: (row) => String(row.count) },
    { key: "flops", title: "FLOP/s", number: true, text: (row) => si(row.flops, "FLOP/s") },
    { key: "bytes", title: "DRAM", number: true, text: (row) => si(row.bytes, "B/s") },
    { key: "intensity", title: "FLOP/byte", number: true, text: (row) => plainNumber(row.intensity) },
    ...data.kernels.kinds.map((kind) => ({ key: kind, title: `Of ${kind}`, number: true, text: (row) => percent(row[kind]) })),
    { key: "class", title: "Bottleneck", text: (row) => `${row.class} (${row.confidence.toFixed(2)})` },
    { key: "excess", title: "Over bound", number: true, text: (row) => duration(row.excess) },
  ];
  const times = (factor) => (factor === null || factor === undefined ? "-" : `${digits(factor)}x`);
  // A kernel without a measured figure says why instead.
  const measured = (row) => (row.status === "measured" ? si(row.moved, "B") : data.kernels.statuses[row.status]);
  if (data.kernels.counted)
    COLUMNS.push(
      { key: "moved", title: "Measured DRAM", number: true, text: measured },
      { key: "reread", title: "Re-read", number: true, text: (row) => times(row.reread) },
      { key: "l2", title: "L2 hits", number: true, text: (row) => percent(row.l2) },
    );
  const state = { sort: "ns", down: true, shown: PAGE, open: new Set() };
  const FILTERS = { phase: byId("filter-phase"), family: byId("filter-family"), class: byId("filter-class") };

  function chosen() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => {
      for (const [key, select] of Object.entries(FILTERS)) if (select.value && row[key] !== select.value) return false;
      const text = `${row.name} ${row.op ?? ""} ${row.evidence ?? ""} ${row.flags ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const key = state.sort;
    const sign = state.down ? -1 : 1;
    // What is unknown stands last whichever way the column is sorted.
    return kept.sort((a, b) => {
      const [x, y] = [a[key] ?? null, b[key] ?? null];
      if (x === null || y === null) return (x === null) - (y === null) || a.id - b.id;
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a.id - b.id;
    });
  }

  function classCell(row, text) {
    return element("span", { className: "class" }, element("i", { className: `c-${row.class}` }), text);
  }

  function countersOf(row) {
    if (row.status !== "measured") return data.kernels.statuses[row.status];
    const parts = [`measured for ${percent(row.counted)} of its time`];
    if (row.joined) parts.push(`joined by ${data.kernels.levels[row.joined]}`);
    if (row.moved !== null) parts.push(`DRAM ${si(row.moved, "B")} measured, ${si(row.least, "B")} the modelled least (${times(row.reread)})`);
    if (row.overFlops !== null) parts.push(`${times(row.overFlops)} the modelled operations`);
    if (row.l2 !== null) parts.push(`${percent(row.l2)} of L2 sectors found there`);
    return parts.join("; ");
  }

  function detail(row) {
    const facts = [
      ["name", row.name], ["bottleneck", `${row.class}, confidence ${row.confidence.toFixed(2)}: ${row.evidence}`],
      ["phase", `${row.phase}, by ${row.phaseEvidence}`], ["work from", row.source ?? "unknown"], ["op", row.op], ["type", row.dtype],
      ["block", row.block], ["flags", row.flags], ["counters", data.kernels.counted ? countersOf(row) : null],
    ];
    const list = element("dl");
    for (const [term, text] of facts)
      if (text) list.append(element("dt", { textContent: term }), element("dd", {}, element("code", { className: "full", textContent: text })));
    const cell = element("td", { colSpan: COLUMNS.length }, list);
    if (row.shapes.length) {
      const head = element("tr");
      for (const title of ["Grid", "Time", "Calls", "FLOP/s", "DRAM", "FLOP/byte", ...data.kernels.kinds.map((kind) => `Of ${kind}`)])
        head.append(element("th", { scope: "col", textContent: title }));
      const body = element("tbody");
      for (const values of row.shapes) {
        const shape = Object.fromEntries(data.kernels.shape_fields.map((name, at) => [name, values[at]]));
        const texts = [shape.grid ?? "-", duration(shape.ns), String(shape.count), si(shape.flops, "FLOP/s"), si(shape.bytes, "B/s"), plainNumber(shape.intensity), ...data.kernels.kinds.map((kind) => percent(shape[kind]))];
        body.append(element("tr", {}, ...texts.map((text, at) => element("td", { className: at ? "n" : "", textContent: text }))));
      }
      cell.append(element("table", {}, element("caption", { textContent: "Shapes of most time" }), element("thead", {}, head), body));
    }
    return element("tr", { className: "detail" }, cell);
  }

  function tableRow(row) {
    const open = state.open.has(row.id);
    const cells = COLUMNS.map((column) => {
      const text = column.text(row);
      if (column.key === "name") {
        const button = element("button", { type: "button", className: "expand", "aria-expanded": String(open), "aria-label": `Evidence of ${(row.short ?? row.name).slice(0, 100)}, ${row.phase}` });
        button.addEventListener("click", () => {
          if (open) state.open.delete(row.id);
          else state.open.add(row.id);
          draw();
          document.querySelector(`tr[data-id="${row.id}"] .expand`)?.focus();
        });
        // Kernels of one template differ by the op that launched them.
        const op = row.op && row.short ? [element("span", { className: "op", textContent: row.op })] : [];
        return element("th", { scope: "row", className: "name", title: row.short ? row.name.slice(0, 1000) : "" }, button, row.short ?? text, ...op);
      }
      if (column.key === "class") return element("td", {}, classCell(row, text));
      const why = column.key === "moved" && row.status !== "measured" ? " why" : "";
      return element("td", { className: column.number ? `n${why}` : "", textContent: text });
    });
    const made = element("tr", { "data-id": String(row.id) }, ...cells);
    return open ? [made, detail(row)] : [made];
  }

  function draw() {
    const kept = chosen();
    byId("kernel-table").tBodies[0].replaceChildren(...kept.slice(0, state.shown).flatMap(tableRow));
    const share = kept.reduce((sum, row) => sum + row.share, 0);
    const left = data.kernels.left_out ? `; ${data.kernels.left_out} groups of less time (${percent(data.kernels.left_out_share)}) are in kernels.parquet alone` : "";
    byId("kernel-count").textContent = `${kept.length} of ${rows.length} groups of kernels, ${percent(Math.min(1, share))} of the kernel time${left}.`;
    byId("more").hidden = kept.length <= state.shown;
    for (const head of byId("kernel-table").querySelectorAll("thead:first-of-type th")) {
      const active = head.dataset.key === state.sort;
      head.setAttribute("aria-sort", active ? (state.down ? "descending" : "ascending") : "none");
    }
  }

  function refilter() {
    state.shown = PAGE;
    draw();
  }

  const headRow = byId("kernel-table").tHead.rows[0];
  for (const column of COLUMNS) {
    const button = element("button", { type: "button", textContent: column.title });
    button.addEventListener("click", () => {
      state.down = state.sort === column.key ? !state.down : Boolean(column.number);
      state.sort = column.key;
      refilter();
    });
    headRow.append(element("th", { scope: "col", className: column.number ? "n" : "", "data-key": column.key }, button));
  }
  for (const [key, select] of Object.entries(FILTERS)) {
    for (const word of [...new Set(rows.map((row) => row[key]))].sort()) select.append(element("option", { value: word, textContent: word }));
    select.addEventListener("change", refilter);
  }
  let waiting;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refilter, 80);
  });
  document.querySelector("form.filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => {
    state.shown += PAGE;
    draw();
  });

  async function copy(text, button) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = element("textarea", { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1200);
  }
  const asMarkdown = (text) => text.replace(/[\\`*_{}[\]<>#|~$]/g, "\\$&");
  // A cell that starts like a formula must stay text in a spreadsheet.
  const asCsv = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return `"${(typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replace(/"/g, '""')}"`;
  };
  byId("copy-markdown").addEventListener("click", (event) => {
    const line = (cells) => `| ${cells.join(" | ")} |`;
    const body = chosen().slice(0, state.shown).map((row) => line(COLUMNS.map((column) => asMarkdown(column.text(row)))));
    copy([line(COLUMNS.map((column) => column.title)), line(COLUMNS.map((column) => (column.number ? "--:" : "---"))), ...body].join("\n"), event.currentTarget);
  });
  const CSV = [["name", "name"], ["phase", "phase"], ["family", "family"], ["ns", "time_ns"], ["share", "share"], ["count", "count"], ["flops", "flops_per_s"], ["bytes", "dram_bytes_per_s"], ["intensity", "arithmetic_intensity"], ...data.kernels.kinds.map((kind) => [kind, `${kind}_roof_share`]), ["class", "bottleneck"], ["confidence", "bottleneck_confidence"], ["evidence", "bottleneck_evidence"], ["excess", "excess_ns"]];
  if (data.kernels.counted) CSV.push(["status", "hw_status"], ["joined", "hw_level"], ["least", "least_bytes"], ["moved", "moved_bytes"], ["reread", "dram_over_least"], ["overFlops", "flops_over_model"], ["l2", "l2_hit"]);
  byId("copy-csv").addEventListener("click", (event) => {
    const body = chosen().map((row) => CSV.map(([key]) => asCsv(row[key])).join(","));
    copy([CSV.map(([, title]) => title).join(","), ...body].join("\r\n"), event.currentTarget);
  });
  draw();

  // A step's detail.
  const details = new Map(data.steps.map((row) => [row.step, row.detail]));
  function showStep(step) {
    const panel = byId("step-detail");
    const facts = details.get(step);
    if (!panel) return;
    if (!facts) {
      panel.replaceChildren(element("p", { textContent: `There is no step ${step} here.` }));
      return;
    }
    const list = element("dl");
    for (const [term, text] of Object.entries(facts)) list.append(element("dt", { textContent: term }), element("dd", { textContent: text }));
    panel.replaceChildren(element("h3", { textContent: `Step ${step}` }), list);
  }
  // The timeline by keyboard: each button keeps so much of what is seen, and moves by so much of it.
  const MOVES = { in: [0.5, 0], out: [2, 0], left: [1, -0.5], right: [1, 0.5] };
  function moveTimeline(word) {
    const view = drawn.get(byId("chart-timeline"))?.view;
    if (!view) return;
    if (word === "all") view.signal("zoom_start", null).runAsync();
    else {
      const [low, high] = view.scale("x").domain();
      const [wide, by] = MOVES[word];
      const [middle, half] = [(low + high) / 2 + by * (high - low), (wide * (high - low)) / 2];
      view.signal("zoom_start", [middle - half, middle + half]).runAsync();
    }
  }
  for (const button of document.querySelectorAll("[data-move]")) button.addEventListener("click", () => moveTimeline(button.dataset.move));

  byId("step")?.addEventListener("change", (event) => showStep(Number(event.currentTarget.value)));

  function showKernel(mark) {
    byId("search").value = mark.id.split("..").join(" ");
    for (const select of Object.values(FILTERS)) select.value = "";
    FILTERS.phase.value = mark.phase;
    refilter();
    byId("kernels").scrollIntoView();
  }

  // Charts: drawn when they come near the screen, and again when the theme changes.
  function look() {
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [text, faint, line] = [colour("--text"), colour("--faint"), colour("--line")];
    return {
      background: "transparent",
      font: "system-ui, sans-serif",
      axis: { labelColor: faint, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
      legend: { labelColor: text, titleColor: text, labelFontSize: 12, orient: "bottom", direction: "horizontal", columns: narrow() ? 2 : 8, symbolOpacity: 1, symbolFillColor: text },
      view: { stroke: line },
      text: { color: text, fontSize: 12 },
      line: { color: faint },
      rule: { color: faint },
    };
  }
  const narrow = () => root.clientWidth < 640;
  const drawn = new Map();
  async function drawChart(node) {
    const spec = data.charts[node.dataset.chart];
    const dark = root.dataset.theme === "dark";
    drawn.get(node)?.finalize();
    const made = await vegaEmbed(node, spec, { ast: true, actions: false, renderer: "svg", config: look(), tooltip: { theme: dark ? "dark" : "light" } });
    drawn.set(node, made);
    made.view.addEventListener("click", (_event, item) => {
      if (item?.datum?.id) showKernel(item.datum);
      else if (item?.datum?.step !== undefined) showStep(item.datum.step);
    });
    node.dataset.drawn = "yes";
  }
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near.unobserve(entry.target);
      drawChart(entry.target);
    }
  }, { rootMargin: "600px" });

  const charts = [...document.querySelectorAll("[data-chart]")];
  function setTheme(theme) {
    root.dataset.theme = theme;
    for (const node of charts) if (node.dataset.drawn) drawChart(node);
  }
  const preference = matchMedia("(prefers-color-scheme: dark)");
  setTheme(preference.matches ? "dark" : "light");
  preference.addEventListener("change", () => setTheme(preference.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  for (const node of charts) near.observe(node);

  // Paper is light, and shows every chart.
  let before;
  let closed = [];
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const node of closed) node.open = true;
    root.dataset.theme = "light";
    for (const node of charts) if (!node.dataset.drawn || before === "dark") drawChart(node);
  });
  addEventListener("afterprint", () => {
    for (const node of closed) node.open = false;
    if (before) setTheme(before);
  });
  root.dataset.ready = "yes";
})();
