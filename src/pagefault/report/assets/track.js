// One run as the player reads it: unpacks its columns and answers what there is at an instant.
// The format is described in pagefault/report/pool_playback.py.

const FREE = -1, CACHED = -2, LEAVING = -3, FIRST_GROUP = -4;
const DOES = ["swapped out", "prefill", "decode", "stalled"];

class Track {
  constructor(run) {
    Object.assign(this, run);
    this.end = this.times[this.times.length - 1];
    this.columnsAreReady = null;
  }

  /** Unpacks the columns, once. */
  ready() {
    this.columnsAreReady ??= this.unpack();
    return this.columnsAreReady;
  }

  async unpack() {
    const packed = Uint8Array.from(atob(this.data), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const numbers = new Int32Array(await new Response(stream).arrayBuffer());
    let at = 0;
    for (const name of this.columns) {
      const width = name === "owner" || name === "page" ? this.cells : this.rows;
      const column = numbers.subarray(at, at + this.instants * width);
      for (let i = width; i < column.length; i++) column[i] += column[i - width];
      this[name] = column;
      at += column.length;
    }
    this.data = null;
  }

  /** The last instant that is not after this time; the first one where there is none. */
  at(time) {
    let low = 0, high = this.instants - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Those who have a row: {id, tokens, pages, does}, by id. */
  sequences(instant) {
    const found = [];
    for (let i = instant * this.rows; i < (instant + 1) * this.rows; i++) {
      if (this.sequence[i] < 0) continue;
      found.push({ id: this.sequence[i], tokens: this.tokens[i], pages: this.pages[i], does: DOES[this.doing[i]] });
    }
    return found.sort((a, b) => a.id - b.id);
  }

  /** Everything about one cell: what it is, whose, which page, which tokens. */
  cell(instant, cell, lengths) {
    const owner = this.owner[instant * this.cells + cell];
    const first = cell * this.perCell, last = Math.min(first + this.perCell, this.blocks) - 1;
    const found = { owner, first, last, kind: "free", members: [], stored: 0 };
    if (owner === CACHED) found.kind = "cached";
    if (owner === LEAVING) found.kind = "leaving";
    if (owner < 0 && owner > FIRST_GROUP) return found;
    found.members = owner >= 0 ? [owner] : this.groups[FIRST_GROUP - owner].slice(1);
    found.sharers = owner >= 0 ? 1 : this.groups[FIRST_GROUP - owner][0];
    found.page = this.page[instant * this.cells + cell];
    found.from = found.page * this.blockSize;
    found.stored = Math.max(0, Math.min(this.blockSize, (lengths.get(found.members[0]) ?? 0) - found.from));
    found.kind = owner < 0 ? "shared" : found.stored ? "held" : "reserved";
    return found;
  }

  /** All cells of an instant. */
  pool(instant) {
    const lengths = new Map(this.sequences(instant).map(({ id, tokens }) => [id, tokens]));
    return Array.from({ length: this.cells }, (_, cell) => this.cell(instant, cell, lengths));
  }
}

const digits = new Intl.NumberFormat("en-US");
const count = (number) => digits.format(number);
const several = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** Simulated nanoseconds as a person reads them. */
function duration(ns) {
  const seconds = ns / 1e9;
  if (seconds < 10) return `${seconds.toFixed(4)} s`;
  if (seconds < 120) return `${seconds.toFixed(2)} s`;
  const whole = Math.floor(seconds), two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)} ${hours ? "h" : "min"}`;
}

/** What a cell is, in words. */
function describe(cell, track) {
  const alone = cell.first === cell.last;
  const frames = `Frames ${count(cell.first)} to ${count(cell.last)}, most of them`;
  const frame = alone ? `Frame ${count(cell.first)}` : frames;
  if (cell.kind === "free") return `${frame}: free`;
  if (cell.kind === "cached") return `${frame}: cached: nobody has it, its content is kept for a later hit`;
  if (cell.kind === "leaving") return `${frame}: on its way to the host, free after this step`;
  const tokens = `tokens ${count(cell.from)} to ${count(cell.from + track.blockSize - 1)}`;
  const stored = cell.kind === "reserved" ? "reserved, no token yet" : `${cell.stored} of ${track.blockSize} stored`;
  const rest = cell.sharers - cell.members.length;
  const names = cell.members.join(", ") + (rest ? ` and ${count(rest)} more` : "");
  const who = cell.kind === "shared" ? `shared by ${cell.sharers} sequences (${names})` : `sequence ${names}`;
  return `${frame}: ${who}, ${alone ? "" : "from "}page ${count(cell.page)}, ${tokens}, ${stored}`;
}
