// SPDX-License-Identifier: MIT
// Style and behaviour of all pages that npuc writes. They are well-formed XML, too.
#include "tools/npuc/page.h"

namespace npu::npuc::page {
namespace {

constexpr const char *kStyle = R"(
:root{color-scheme:light dark;--page:#fff;--ink:#1c1f24;--soft:#59616d;--line:#d8dce2;--band:#f4f6f8;
--compute:#2563c4;--local:#0f8a74;--memory:#c4570c;--latency:#8546b8;--hidden:#757d88;--hit:#ffe27a}
@media(prefers-color-scheme:dark){:root{--page:#15181c;--ink:#e7eaee;--soft:#a3acb8;--line:#353b43;--band:#1e2227;
--compute:#6ea4f4;--local:#3fc3a8;--memory:#f0914a;--latency:#c190ec;--hidden:#8b949f;--hit:#6b5600}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:0 auto;padding:1.5rem;
max-width:1400px}
h1,p,li{overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.5rem 0 .5rem}
p.sub{color:var(--soft);margin:.25rem 0}
dl.keys{display:flex;flex-wrap:wrap;gap:.75rem 2rem;margin:1rem 0}dl.keys div{min-width:7rem}
dl.keys dt{color:var(--soft);font-size:.85rem}dl.keys dd{margin:0;font-size:1.15rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.87rem;width:100%}
th,td{padding:.3rem .55rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.name{overflow-wrap:anywhere;min-width:10rem}
th{color:var(--soft);font-weight:600;background:var(--page);white-space:nowrap}
th button{all:unset;cursor:pointer}
:focus-visible{outline:2px solid var(--compute);outline-offset:1px}
th button:focus-visible{outline:2px solid var(--compute)}
th[aria-sort=ascending] button::after{content:" \2191"}th[aria-sort=descending] button::after{content:" \2193"}
tbody tr:hover,tr.chosen{background:var(--band)}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{display:inline-block;height:.6em;margin-right:.4em;border-radius:2px;vertical-align:baseline}
.tag{white-space:nowrap}
.tag::before{content:"";display:inline-block;width:.7em;height:.7em;border-radius:50%;margin-right:.4em}
.b-compute.tag::before,.bar.b-compute{background:var(--compute)}
.b-local.tag::before,.bar.b-local{background:var(--local)}
.b-memory.tag::before,.bar.b-memory{background:var(--memory)}
.b-latency.tag::before,.bar.b-latency{background:var(--latency)}
.b-hidden.tag::before,.bar.b-hidden{background:var(--hidden)}
svg{font:12px system-ui,sans-serif}
svg.plot{width:100%;min-width:920px;height:auto;display:block}
svg text{fill:var(--soft)}svg .grid{stroke:var(--line);stroke-width:1}svg .roof{stroke:var(--ink);stroke-width:2}
svg text.point{fill:var(--ink)}
circle{fill:var(--hidden);fill-opacity:.75;stroke:var(--page);stroke-width:1}
circle.b-compute{fill:var(--compute)}circle.b-local{fill:var(--local)}circle.b-memory{fill:var(--memory)}
circle.b-latency{fill:var(--latency)}
svg.plot rect{stroke:var(--page);stroke-width:.4;fill:var(--hidden)}
svg.plot rect:hover,circle:hover{stroke:var(--ink);stroke-width:1.5}
svg.plot rect.m-tensor{fill:var(--compute)}svg.plot rect.m-tile-buffer{fill:var(--local)}
svg.plot rect.m-weights,svg.plot rect.m-coefficients{fill:var(--memory)}
svg.plot rect.m-exchange{fill:var(--latency)}svg.plot rect.m-input{fill:var(--local)}
svg.plot rect.m-output{fill:var(--compute)}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;font-size:.85rem;color:var(--soft);margin:.4rem 0}
.key i::before{content:"";display:inline-block;width:.8em;height:.8em;margin-right:.4em;background:var(--c)}
.key i{font-style:normal}
ul.points{columns:22rem;font-size:.87rem;color:var(--soft);margin:.4rem 0;padding:0;list-style:none}
figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.87rem}
.finding{border-left:3px solid var(--memory);padding:.1rem 0 .1rem .9rem;margin:1rem 0}
.tools{display:flex;flex-wrap:wrap;gap:.4rem .6rem;align-items:center;margin:.5rem 0;font-size:.87rem}
.tools input,.tools button,.details button{font:inherit;color:inherit;background:var(--band);
border:1px solid var(--soft);
border-radius:4px;padding:.15rem .6rem}
.tools input{min-width:18rem;max-width:100%;background:var(--page)}
.graph{overflow:auto;max-height:75vh;border:1px solid var(--line);border-radius:4px;cursor:grab}
.graph.moving{cursor:grabbing}
.graph svg{display:block;margin:0 auto;font:11px ui-monospace,"DejaVu Sans Mono",monospace}
.graph .w{fill:none;stroke:var(--soft);stroke-width:1}
.graph .w.on{stroke:var(--compute);stroke-width:2.5}
.graph .node{cursor:pointer}
.graph .node:focus{outline:none}
.graph .box{fill:var(--band);stroke:var(--soft);stroke-width:1}
.graph .chip .box{stroke:var(--compute)}
.graph .cpu .box{stroke:var(--memory);stroke-width:2}
.graph .free .box{stroke-dasharray:4 3}
.graph .outside .box{fill:var(--page)}
.graph .node:hover .box,.graph .node:focus .box{stroke:var(--ink);stroke-width:2}
.graph .chosen .box{stroke:var(--compute);stroke-width:3}
.graph .hit .box{fill:var(--hit)}
.graph .share{fill:var(--compute)}
.graph text{fill:var(--ink)}.graph text .soft{fill:var(--soft)}.graph text .op{font-weight:700}
.graph.far text{display:none}
.details{border-left:3px solid var(--compute);
padding:.1rem 0 .1rem .9rem;margin:.75rem 0;min-height:3.2em;font-size:.87rem}
svg .h{fill:var(--compute)}svg .r,svg .b{fill:var(--memory)}svg .k{fill:var(--hidden)}
@media(max-width:640px){body{padding:.75rem}th,td{padding:.25rem .35rem}dl.keys{gap:.5rem 1.25rem}}
@media print{.tools,.details{display:none}.graph{max-height:none}}
)";

// Sorts the table of a heading that is clicked, by data-v where a cell has it.
constexpr const char *kTableScript = R"(
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const th = button.parentElement, body = th.closest('table').tBodies[0];
  const column = Array.prototype.indexOf.call(th.parentElement.children, th);
  const down = th.getAttribute('aria-sort') !== 'descending';
  for (const other of th.parentElement.children) other.removeAttribute('aria-sort');
  th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const value = row => {
    const c = row.children[column];
    return c.dataset.v === undefined ? c.textContent : +c.dataset.v;
  };
  const order = (a, b) => a === b ? 0 : a > b ? 1 : -1;
  const rows = Array.from(body.rows).sort((a, b) => (down ? -1 : 1) * order(value(a), value(b)));
  for (const row of rows) body.appendChild(row);
});
)";

// Zoom, search and selection of each graph. The box scrolls by itself; without a script the graph is a drawing.
constexpr const char *kGraphScript = R"(
for (const stage of document.querySelectorAll('.stage-graph')) {
  const box = stage.querySelector('.graph'), svg = box.querySelector('svg'), details = stage.querySelector('.details');
  const search = stage.querySelector('input'), found = stage.querySelector('output');
  const nodes = Array.from(svg.querySelectorAll('.node'));
  const [, , width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const table = document.getElementById(stage.dataset.table);
  let scale = 1, chosen = null, hits = [], at = -1;

  const zoom = (to, x = box.clientWidth / 2, y = box.clientHeight / 2) => {
    const px = (box.scrollLeft + x) / scale, py = (box.scrollTop + y) / scale;
    scale = Math.min(4, Math.max(0.02, to));
    svg.setAttribute('width', width * scale);
    svg.setAttribute('height', height * scale);
    box.classList.toggle('far', scale < 0.35);
    box.scrollLeft = px * scale - x;
    box.scrollTop = py * scale - y;
  };
  const fit = () => zoom(Math.min(1, box.clientWidth / width, 0.75 * window.innerHeight / height));
  const show = node => {
    const b = node.getBBox(), m = node.transform.baseVal.consolidate().matrix;
    if (scale < 0.5) zoom(0.8);
    box.scrollLeft = (m.e + b.width / 2) * scale - box.clientWidth / 2;
    box.scrollTop = (m.f + b.height / 2) * scale - box.clientHeight / 2;
  };
  const rowOf = node => table && node.dataset.i !== undefined
      ? table.querySelector('tr[data-i="' + node.dataset.i + '"]') : null;
  const choose = (node, focus) => {
    if (chosen) chosen.classList.remove('chosen');
    for (const n of svg.querySelectorAll('.node[tabindex="0"]')) n.setAttribute('tabindex', '-1');
    for (const w of svg.querySelectorAll('.w.on')) w.classList.remove('on');
    for (const r of table ? table.querySelectorAll('tr.chosen') : []) r.classList.remove('chosen');
    chosen = node;
    node.classList.add('chosen');
    node.setAttribute('tabindex', '0');
    if (focus) node.focus({preventScroll: true});
    const nets = (node.dataset.in + ' ' + node.dataset.out).trim().split(' ');
    for (const n of nets) if (n) for (const w of svg.querySelectorAll('.w[data-n="' + n + '"]')) w.classList.add('on');
    details.textContent = node.getAttribute('aria-label') + '. ';
    const row = rowOf(node);
    if (row) {
      row.classList.add('chosen');
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = 'row of the table';
      button.addEventListener('click', () => row.scrollIntoView({block: 'center'}));
      details.append(button);
    }
  };
  const sharing = (net, kind) => nodes.filter(n => n.dataset[kind].split(' ').includes(net));
  const neighbour = key => {
    const middle = n => { const r = n.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; };
    const [x, y] = middle(chosen);
    let others;
    if (key === 'ArrowUp' || key === 'ArrowDown') {
      const down = key === 'ArrowDown', nets = chosen.dataset[down ? 'out' : 'in'].split(' ').filter(Boolean);
      others = nets.flatMap(n => sharing(n, down ? 'in' : 'out'));
    } else {
      const sign = key === 'ArrowRight' ? 1 : -1;
      others = nodes.filter(n => n.dataset.r === chosen.dataset.r && sign * (middle(n)[0] - x) > 1);
    }
    const far = n => Math.hypot(middle(n)[0] - x, middle(n)[1] - y);
    return others.filter(n => n !== chosen).sort((a, b) => far(a) - far(b))[0];
  };
  const step = by => {
    if (!hits.length) return;
    at = (at + by + hits.length) % hits.length;
    found.textContent = (at + 1) + ' of ' + hits.length;
    choose(hits[at], false);
    show(hits[at]);
  };

  svg.addEventListener('click', event => {
    const node = event.target.closest('.node');
    if (node) choose(node, true);
  });
  box.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '+' || event.key === '=') zoom(scale * 1.25);
    else if (event.key === '-') zoom(scale / 1.25);
    else if (event.key === '0') fit();
    else if (event.key.startsWith('Arrow') && chosen && svg.contains(document.activeElement)) {
      const next = neighbour(event.key);
      if (next) { choose(next, true); show(next); }
    } else if (event.key === 'Enter' && event.target === box && nodes.length) {
      choose(nodes[0], true);
      show(nodes[0]);
    } else return;
    event.preventDefault();
  });
  box.addEventListener('wheel', event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const r = box.getBoundingClientRect();
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - r.left, event.clientY - r.top);
  }, {passive: false});
  let from = null;
  box.addEventListener('pointerdown', event => {
    if (event.button === 0 && event.pointerType === 'mouse' && !event.target.closest('.node'))
      from = [event.clientX + box.scrollLeft, event.clientY + box.scrollTop];
  });
  window.addEventListener('pointermove', event => {
    if (!from) return;
    box.classList.add('moving');
    box.scrollLeft = from[0] - event.clientX;
    box.scrollTop = from[1] - event.clientY;
  });
  window.addEventListener('pointerup', () => { from = null; box.classList.remove('moving'); });
  const actions = {in: () => zoom(scale * 1.25), out: () => zoom(scale / 1.25), fit, full: () => zoom(1),
                   previous: () => step(-1), next: () => step(1)};
  for (const button of stage.querySelectorAll('.tools button'))
    button.addEventListener('click', () => actions[button.dataset.do]());
  search.addEventListener('input', () => {
    const words = search.value.toLowerCase().split(' ').filter(Boolean);
    hits = words.length ? nodes.filter(n => {
      const text = n.getAttribute('aria-label').toLowerCase();
      return words.every(w => text.includes(w));
    }) : [];
    const are = new Set(hits);
    for (const n of nodes) n.classList.toggle('hit', are.has(n));
    at = -1;
    found.textContent = words.length ? hits.length + ' found' : '';
    if (hits.length) step(1);
  });
  search.addEventListener('keydown', event => {
    if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
  });
  if (table) table.addEventListener('click', event => {
    const cell = event.target.closest('td.name'), row = cell ? cell.parentElement : null;
    const node = row ? nodes.find(n => n.dataset.i === row.dataset.i) : null;
    if (node) { choose(node, true); show(node); box.scrollIntoView({block: 'nearest'}); }
  });
  const start = Math.min(1, Math.max(0.6, (box.clientWidth - 2) / width));
  zoom(start, 0, 0);
  if (nodes.length) show(nodes[0]);
  box.scrollTop = 0;
}
)";

}  // namespace

std::string begin_page(const std::string &title) {
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta charset=\"utf-8\"/>"
         "<meta name=\"viewport\" content=\"width=device-width\"/><title>" +
         escaped(title) + "</title>\n<style>" + kStyle + "</style></head>\n<body><main>\n";
}

std::string end_page() {
  return "</main><script>//<![CDATA[" + std::string(kTableScript) + kGraphScript + "//]]></script>\n</body></html>\n";
}

}  // namespace npu::npuc::page
