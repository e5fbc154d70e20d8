// Draws each chart when it comes into view, and again when the theme changes.
(() => {
  "use strict";
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs"), configs = read("configs");
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const figures = [...document.querySelectorAll("figure.chart")];
  const wanted = new Set(); // figures that have been in view
  const drawn = new WeakMap(); // panel → what vegaEmbed gave

  const theme = () => root.dataset.theme ?? (prefersDark.matches ? "dark" : "light");

  /** On a phone: legends in two columns, fewer ticks, shorter labels. */
  const config = (width) => {
    const base = configs[theme()];
    if (width > 480) return base;
    return {
      ...base,
      legend: { ...base.legend, columns: 2, labelLimit: 130 },
      axisX: { ...base.axisX, tickCount: 5 },
      axisY: { ...base.axisY, labelLimit: 105 },
    };
  };

  async function drawPanel(panel, spec) {
    try {
      const result = await vegaEmbed(panel, spec, {
        mode: "vega-lite", renderer: "svg", actions: false, config: config(panel.clientWidth),
        tooltip: { disableDefaultStyle: true },
      });
      drawn.get(panel)?.finalize();
      drawn.set(panel, result);
      panel.style.minHeight = "";
    } catch (error) {
      panel.textContent = `This picture could not be drawn (${error.message}); its figures are in the table below.`;
      panel.classList.add("failed");
      console.error(error);
    }
  }

  async function draw(figure) {
    const panels = [...figure.querySelectorAll(".panel")];
    await Promise.all(panels.map((panel, index) => drawPanel(panel, specs[figure.id][index])));
    figure.dataset.drawn = theme();
  }

  function want(figure) {
    if (wanted.has(figure)) return;
    wanted.add(figure);
    draw(figure);
  }

  let last = theme();
  function redraw() {
    if (theme() === last) return;
    last = theme();
    wanted.forEach(draw);
  }

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      want(target);
    }
  }, { rootMargin: "300px" });
  figures.forEach((figure) => seen.observe(figure));
  addEventListener("beforeprint", () => figures.forEach(want));

  for (const input of document.querySelectorAll(".theme input")) {
    input.checked = input.value === (root.dataset.theme ?? "auto");
    input.addEventListener("change", () => {
      if (input.value === "auto") delete root.dataset.theme;
      else root.dataset.theme = input.value;
      try {
        localStorage.setItem("pagefault-theme", input.value);
      } catch { /* a file that may not store */ }
      redraw();
    });
  }
  prefersDark.addEventListener("change", redraw);
})();
