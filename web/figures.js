// SPDX-License-Identifier: Apache-2.0
'use strict';
// Small plots: a figure with its last value in words and its course as a line.
class Plot {
  static #SVG = 'http://www.w3.org/2000/svg';
  static #MOST = 240; // points; older ones leave

  constructor(parent, title, unit, digits) {
    this.title = title;
    this.unit = unit;
    this.digits = digits;
    this.points = [];
    const figure = parent.appendChild(document.createElement('figure'));
    figure.className = 'plot';
    figure.append(Object.assign(document.createElement('figcaption'), { textContent: title }));
    this.value = Object.assign(document.createElement('span'), { className: 'value', textContent: '–' });
    figure.append(this.value, Object.assign(document.createElement('span'),
      { className: 'unit', textContent: unit ? ` ${unit}` : '' }));
    const svg = figure.appendChild(document.createElementNS(Plot.#SVG, 'svg'));
    svg.setAttribute('viewBox', '0 0 100 38');
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true'); // the value says it
    this.below = svg.appendChild(document.createElementNS(Plot.#SVG, 'path'));
    this.below.setAttribute('class', 'below');
    this.line = svg.appendChild(document.createElementNS(Plot.#SVG, 'path'));
    this.line.setAttribute('vector-effect', 'non-scaling-stroke');
  }

  clear() {
    this.points = [];
    this.value.textContent = '–';
    this.draw();
  }

  /* null: there is no value now; the line goes on from the last one */
  add(x, y) {
    if (y === null || !Number.isFinite(y))
      return;
    this.points.push([x, y]);
    if (this.points.length > Plot.#MOST)
      this.points.shift();
  }

  draw() {
    if (this.points.length < 2) {
      this.line.setAttribute('d', '');
      this.below.setAttribute('d', '');
    }
    if (this.points.length === 0)
      return;
    const first = this.points[0][0], last = this.points[this.points.length - 1];
    const width = last[0] - first || 1, most = Math.max(...this.points.map((p) => p[1])) || 1;
    const path = this.points.map(([x, y], i) =>
      `${i === 0 ? 'M' : 'L'}${(100 * (x - first) / width).toFixed(2)} ${(36 - 33 * y / most).toFixed(2)}`).join('');
    this.value.textContent = last[1].toFixed(this.digits);
    if (this.points.length < 2)
      return;
    this.line.setAttribute('d', path);
    this.below.setAttribute('d', `${path}L100 38L0 38Z`);
  }
}
