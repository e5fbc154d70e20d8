// The player: runs side by side over one simulated time.

const WHOLE_RUN_S = 30; // at speed 1×

class Player {
  constructor(section) {
    this.section = section;
    const data = JSON.parse(section.querySelector(".pool-data").textContent);
    this.colours = new Map(data.sequences.map((id, at) => [id, data.palette[data.colours[at]]]));
    this.tracks = data.runs.map((run) => new Track(run));
    this.time = 0;
    this.chosen = null;
    this.said = null;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.slider = section.querySelector(".pool-slider");
    this.paint = this.mix();
    const shown = [...new Set([0, this.tracks.length - 1])];
    this.panes = shown.map((index) => this.addPane(index));
    this.lanes = shown.map(() => this.addLane());
    this.listen();
    this.arrange();
    this.redraw();
    this.seek(0);
  }

  mix() {
    return new Paint(this.section, this.colours);
  }

  clone(name) {
    return this.section.querySelector(`template.${name}`).content.firstElementChild.cloneNode(true);
  }

  addPane(index) {
    const pane = new Pane(this.clone("pool-pane"), this);
    const { chosen, name } = pane.parts;
    chosen.append(...this.tracks.map((track, at) => new Option(track.name, at, at === index, at === index)));
    chosen.hidden = this.tracks.length < 2;
    name.hidden = !chosen.hidden;
    chosen.addEventListener("change", () => {
      pane.choose(this.tracks[chosen.value]);
      this.arrange();
      this.seek(this.time);
    });
    this.section.querySelector(".pool-panes").append(pane.element);
    pane.choose(this.tracks[index]);
    return pane;
  }

  addLane() {
    const element = this.clone("pool-lane");
    this.section.querySelector(".pool-lanes").append(element);
    return new Lane(element, (time) => this.seek(time), (preemption) => this.say(preemption));
  }

  /** After another run was chosen: the common time, and what belongs to it. */
  arrange() {
    const tracks = this.panes.map((pane) => pane.track);
    this.span = Math.max(...tracks.map((track) => track.end), 1);
    this.instants = [...new Set(tracks.flatMap((track) => track.times))].sort((a, b) => a - b);
    this.preemptions = tracks.flatMap((track) => track.preemptions).sort((a, b) => a[0] - b[0]);
    this.slider.max = this.span;
    this.lanes.forEach((lane, index) => lane.show(tracks[index], this.span));
    for (const button of ["before", "after"]) this.button(button).hidden = !this.preemptions.length;
  }

  button(name) {
    return this.section.querySelector(`[data-do=${name}]`);
  }

  listen() {
    const dos = {
      play: () => this.play(!this.playing), back: () => this.step(-1), on: () => this.step(1),
      before: () => this.preemption(-1), after: () => this.preemption(1),
    };
    for (const [name, act] of Object.entries(dos)) this.button(name).addEventListener("click", act);
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.slider.addEventListener("keydown", (event) => this.key(event));
    this.section.addEventListener("keydown", (event) => {
      if (event.key !== " " || event.target.closest("button, select, .pool-list")) return;
      event.preventDefault();
      this.play(!this.playing);
    });
    const redraw = () => this.redraw();
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width !== width) requestAnimationFrame(redraw); // heights follow from what is drawn
      width = contentRect.width;
    }).observe(this.section);
    new MutationObserver(redraw).observe(document.documentElement, { attributes: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }

  key(event) {
    const moves = {
      ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -20, PageUp: 20,
      Home: -Infinity, End: Infinity,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.step(moves[event.key]);
  }

  /** So many instants on, or back. */
  step(by) {
    this.play(false);
    let at = this.instants.findLastIndex((time) => time <= this.time);
    this.seek(this.instants[Math.max(0, Math.min(this.instants.length - 1, at + by))]);
  }

  /** To the next preemption, or the one before; it is decided as its step begins, so the step after shows it. */
  preemption(direction) {
    this.play(false);
    const from = this.said?.[0] ?? this.time;
    const found = direction > 0
      ? this.preemptions.find(([time]) => time > from)
      : this.preemptions.findLast(([time]) => time < from);
    if (!found) return;
    this.seek(this.instants.find((time) => time > found[0]) ?? this.span);
    this.say(found);
  }

  play(playing) {
    this.playing = playing;
    const button = this.button("play");
    button.textContent = playing ? "Pause" : "Play";
    if (!playing) return;
    if (this.time >= this.span) this.seek(0);
    let last = performance.now();
    const frame = (now) => {
      if (!this.playing) return;
      const pause = this.still.matches ? 500 : 0; // reduced motion: a still picture twice a second
      if (now - last >= pause) {
        const speed = Number(this.button("speed").value);
        this.seek(this.time + ((now - last) / 1000 / WHOLE_RUN_S) * speed * this.span);
        last = now;
        if (this.time >= this.span) return this.play(false);
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  seek(time) {
    this.time = Math.max(0, Math.min(time, this.span));
    this.said = null;
    this.section.dataset.time = this.time;
    this.slider.value = this.time;
    this.slider.setAttribute("aria-valuetext", `${duration(this.time)} of ${duration(this.span)}`);
    this.section.querySelector(".pool-time").textContent = `${duration(this.time)} of ${duration(this.span)}`;
    for (const pane of this.panes) pane.seek(this.time);
    this.timelines();
  }

  say(preemption) {
    this.said = preemption;
    this.timelines();
  }

  /** Makes a sequence stand out in every pool and list; `list` is the one that is pointed at and must not move. */
  highlight(sequence, list = null) {
    const changed = this.chosen !== sequence;
    this.chosen = sequence;
    this.section.dataset.chosen = sequence ?? "";
    for (const pane of this.panes) {
      pane.draw();
      if (changed && pane.parts.body !== list) pane.reveal(sequence);
    }
  }

  timelines() {
    const says = this.section.querySelector(".pool-lane-says");
    const pointing = this.preemptions.length ? " Point at a ▲ to see who lost frames for whom." : "";
    const resting = `Areas: frames given to pages, on a square-root scale.${pointing}`;
    says.textContent = this.said ? told(this.said) : resting;
    for (const lane of this.lanes) lane.draw(this.paint, this.time, this.said);
  }

  redraw() {
    for (const part of [...this.panes.map(({ view }) => view), ...this.lanes]) part.measure();
    this.paint = this.mix();
    for (const pane of this.panes) pane.draw();
    this.timelines();
    this.legend();
  }

  /** A sample of each kind of cell that these runs have. */
  legend() {
    const one = { members: [this.colours.keys().next().value], stored: 1 }, sample = {
      held: ["tokens of a sequence, by its colour; half full: half of its slots", { ...one, stored: 0.5 }],
      reserved: ["reserved, no token yet", one], shared: ["shared by sequences", one],
      cached: ["cached for a later hit", one], leaving: ["on its way to the host", one], free: ["free", one],
    };
    const list = this.section.querySelector(".pool-legend");
    const there = Object.entries(sample).filter(([kind]) => this.tracks.some(({ kinds }) => kinds.includes(kind)));
    list.replaceChildren(...there.map(([kind, [words, cell]]) => {
      const item = document.createElement("li"), canvas = document.createElement("canvas");
      const size = Math.round(16 * devicePixelRatio);
      canvas.width = canvas.height = size;
      this.paint.cell(canvas.getContext("2d"), { ...cell, kind }, { x: 0, y: 0, width: size, height: size }, 1);
      item.append(canvas, words);
      return item;
    }));
  }
}

function startPlayers() {
  for (const section of document.querySelectorAll("section.pool")) section.player ??= new Player(section);
}
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", startPlayers);
else startPlayers();
