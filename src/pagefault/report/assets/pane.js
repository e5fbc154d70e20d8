// One run: its pool, its figures and its running sequences.

class Pane {
  constructor(element, player) {
    this.element = element;
    this.player = player;
    this.track = null;
    this.parts = {
      chosen: element.querySelector("select"), name: element.querySelector("strong"),
      status: element.querySelector(".pool-status"), facts: element.querySelector(".pool-facts"),
      says: element.querySelector(".pool-says"), body: element.querySelector("tbody"),
    };
    this.view = new PoolView(element.querySelector(".pool-frame"), () => this.player.highlight(this.pointed()));
    const list = this.parts.body;
    list.addEventListener("pointermove", (event) => {
      const row = event.target.closest("tr");
      player.highlight(row ? Number(row.dataset.id) : null, list);
    });
    list.addEventListener("pointerleave", () => player.highlight(null, list));
  }

  /** Shows this run from now on. */
  async choose(track) {
    this.track = track;
    this.view.across = track.across;
    this.element.style.setProperty("--pool-widest", `${track.across * WIDEST_CELL}px`);
    this.view.measure();
    this.parts.name.textContent = track.name;
    this.element.dataset.run = track.name;
    delete this.element.dataset.instant;
    try {
      await track.ready();
    } catch (error) {
      this.parts.status.textContent = `cannot be unpacked (${error.message}); a browser of 2023 or later can`;
      return;
    }
    this.seek(this.player.time);
  }

  seek(time) {
    const { track, element } = this;
    if (!track?.owner) return; // being unpacked
    const instant = track.at(time), over = time > track.end;
    if (element.dataset.instant !== String(instant)) {
      element.dataset.instant = instant;
      element.dataset.step = track.numbers[instant];
      this.view.cells = track.pool(instant);
      this.sequences = track.sequences(instant);
      this.list();
      this.figures(instant);
    }
    element.classList.toggle("pool-over", over);
    const end = `${track.complete ? "ended" : "was stopped"} at ${duration(track.end)}`;
    this.parts.status.textContent = over ? `${end}; this was its last step` : `step ${count(track.numbers[instant])}`;
    this.draw();
  }

  figures(instant) {
    const { track } = this, cells = this.view.cells;
    const used = track.blocks - track.free[instant], running = this.sequences.filter((one) => one.does !== DOES[0]);
    const stalled = running.filter((one) => one.does === "stalled").length;
    const percent = (part, whole) => (part && part < whole / 100 ? "<1%" : `${Math.round((100 * part) / whole)}%`);
    const share = (part, whole) => (whole ? percent(part, whole) : "–");
    const facts = {
      queue: count(track.waiting[instant]),
      running: count(running.length) + (stalled ? ` (${count(stalled)} stalled)` : ""),
      "frames in use": `${count(used)} (${share(used, track.blocks)})`,
      "filled with tokens": share(track.stored[instant], used * track.blockSize),
    };
    if (track.swapped.some(Boolean)) facts["swapped out"] = count(track.swapped[instant]);
    this.parts.facts.replaceChildren(...Object.entries(facts).map(([name, value]) => {
      const fact = document.createElement("div"), term = document.createElement("dt");
      const said = document.createElement("dd");
      term.textContent = name;
      said.textContent = value;
      fact.append(term, said);
      return fact;
    }));
    const kinds = {};
    for (const { kind } of cells) kinds[kind] = (kinds[kind] ?? 0) + 1;
    const what = track.perCell > 1 ? `cells of ${track.perCell} frames` : "frames";
    const sorts = Object.entries(kinds).map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
    this.view.canvas.setAttribute(
      "aria-label",
      `Pool of ${track.name} at ${duration(track.times[instant])}, step ${count(track.numbers[instant])}: ` +
        `${several(running.length, "sequence")} running, ${facts.queue} in the queue; ${what}: ${sorts}`);
  }

  list() {
    const rows = this.parts.body.rows;
    while (rows.length > this.sequences.length) this.parts.body.deleteRow(-1);
    while (rows.length < this.sequences.length) {
      const row = this.parts.body.insertRow();
      for (let i = 0; i < 4; i++) row.insertCell();
      row.cells[0].append(document.createElement("i"), "");
    }
    this.sequences.forEach(({ id, tokens, pages, does }, index) => {
      const row = rows[index];
      row.dataset.id = id;
      row.dataset.does = does;
      if (row.cells[0].lastChild.data !== String(id)) {
        row.cells[0].firstChild.style.background = this.player.paint.of(id);
        row.cells[0].lastChild.data = id;
      }
      [count(tokens), count(pages), does].forEach((said, at) => {
        if (row.cells[at + 1].textContent !== said) row.cells[at + 1].textContent = said;
      });
    });
  }

  /** The sequence under the pointer or the cursor, if any. */
  pointed() {
    return this.view.cells[this.view.cursor]?.members[0] ?? null;
  }

  /** Scrolls the list so that a sequence's line is seen. */
  reveal(sequence) {
    const line = [...this.parts.body.rows].find(({ dataset }) => Number(dataset.id) === sequence);
    const list = this.parts.body.closest(".pool-list");
    const below = line ? line.offsetTop - list.scrollTop : 0;
    if (line && (below < 30 || below > list.clientHeight - 30)) list.scrollTop = line.offsetTop - list.clientHeight / 2;
  }

  draw() {
    const { view, track, player } = this;
    if (!track?.owner) return;
    view.draw(player.paint, track.blockSize, player.chosen);
    const cell = view.cells[view.cursor];
    const says = cell ? describe(cell, track) : "Point at a frame to see whose it is.";
    if (this.parts.says.textContent !== says) this.parts.says.textContent = says;
    for (const row of this.parts.body.rows) row.classList.toggle("pool-mine", Number(row.dataset.id) === player.chosen);
  }
}
