// The window under two sliders: asks the server for it at every move, and draws matrix, links and ranking.
const SIDE = 430 // of a picture in its own units; the page scales it
const EDGE = 64 // room for the symbols' names
const MOST_LABELS = 40

const safe = text => String(text).replace(/[&<>"]/g, sign => `&#${sign.charCodeAt(0)};`)
const largest = values => Math.max(...values.map(Math.abs), 0) || 1
const short = value => (value === null ? "–" : Number(value).toPrecision(3))

export default function ({ data, parentElement: root }) {
  const part = name => root.querySelector(`.${name}`)
  root.source = data.source // another score may be chosen while a question is open
  const wanted = () =>
    String(new URLSearchParams({ ...root.source, end: part("end").value, lookback: part("lookback").value }))
  // one question at a time; a move meanwhile is asked next, so that a drag is drawn as it goes
  const follow = async () => {
    if (root.isAsking) return
    root.isAsking = true
    try {
      while (root.shown !== wanted()) {
        const asked = wanted()
        await show(part, data.labels, await fetch(`window?${asked}`))
        root.shown = asked
      }
    } finally {
      root.isAsking = false
    }
  }
  for (const [name, bounds] of Object.entries(data.sliders)) {
    const slider = part(name)
    if (!slider.oninput) Object.assign(slider, bounds)
    slider.setAttribute("aria-label", data.labels[name])
    slider.oninput = follow
  }
  follow()
}

async function show(part, labels, answer) {
  if (!answer.ok) {
    part("sentence").textContent = await answer.text()
    return
  }
  const window = await answer.json()
  for (const [name, told] of Object.entries(window.told)) {
    part(`${name}-told`).innerHTML = `${safe(labels[name])}: <bdi>${safe(told)}</bdi>`
    part(name).setAttribute("aria-valuetext", told)
  }
  part("sentence").textContent = window.sentence
  const colour = shades(window.scale)
  for (const [name, draw] of [["matrix", matrix], ["links", links], ["ranking", ranking]]) {
    const svg = `<svg viewBox="0 0 ${SIDE} ${SIDE}" role="img" aria-label="${safe(window[name].title)}">${draw(window[name], colour)}</svg>`
    part(name).innerHTML = `<figcaption>${safe(window[name].title)}</figcaption>${svg}`
  }
  part("pictures").onpointermove = event => showTip(part("tip"), event, window.matrix)
  part("pictures").onpointerleave = () => { part("tip").hidden = true }
}

// share in [-1, 1] -> [red, green, blue], between the colours of a diverging scale
function shades(scale) {
  return share => {
    const place = ((Math.max(-1, Math.min(1, share)) + 1) / 2) * (scale.length - 1)
    const low = Math.min(Math.floor(place), scale.length - 2)
    return scale[low].map((value, channel) => Math.round(value + (place - low) * (scale[low + 1][channel] - value)))
  }
}

// a pixel for each pair, drawn once and scaled: 143 symbols are 20,449 pairs
function matrix({ names, values, strong, faint, limit, row_title, column_title, absent }, colour) {
  const count = names.length || 1
  const canvas = Object.assign(document.createElement("canvas"), { width: count, height: count })
  const pen = canvas.getContext("2d")
  values.forEach((row, y) => row.forEach((value, x) => {
    pen.globalAlpha = 1
    pen.fillStyle = value === null ? absent : "white"
    pen.fillRect(x, y, 1, 1)
    if (value === null) return
    pen.globalAlpha = strong && !strong[y][x] ? faint : 1 // what is not significant is faint
    pen.fillStyle = `rgb(${colour(value / limit)})`
    pen.fillRect(x, y, 1, 1)
  }))
  const size = SIDE - EDGE - 16
  const step = Math.ceil(count / MOST_LABELS)
  const labels = names.map((name, place) => {
    const middle = ((place + 0.5) * size) / count
    return place % step ? "" : `
      <text x="${EDGE - 4}" y="${middle + 4}" text-anchor="end">${safe(name)}</text>
      <text transform="translate(${EDGE + middle - 4} ${size + 5}) rotate(90)">${safe(name)}</text>`
  })
  return `
    <image href="${canvas.toDataURL()}" x="${EDGE}" width="${size}" height="${size}" preserveAspectRatio="none" />
    ${labels.join("")}
    <text class="axis" x="${EDGE + size / 2}" y="${SIDE - 20}" text-anchor="middle">${safe(column_title)}</text>
    <text class="axis" transform="translate(9 ${size / 2}) rotate(-90)" text-anchor="middle">${safe(row_title)}</text>`
}

function links({ names, places, scores, arrows, none }, colour) {
  const [limit, middle] = [largest(scores), SIDE / 2]
  const at = (place, reach = 1) => {
    const [x, y] = places[place]
    return [middle + x * reach * (middle - 40), middle - y * reach * (middle - 40)]
  }
  const lines = arrows.map(([leader, follower, width, isOpposite, tip]) => {
    const [[x0, y0], [x1, y1]] = [at(leader), at(follower)]
    const gap = 12 / (Math.hypot(x1 - x0, y1 - y0) || 1) // stops short of the circle
    const [x, y] = [x1 - gap * (x1 - x0), y1 - gap * (y1 - y0)]
    const dashes = isOpposite ? 'stroke-dasharray="5 3"' : ""
    return `<line x1="${x0}" y1="${y0}" x2="${x}" y2="${y}" stroke-width="${width}" marker-end="url(#head)" ${dashes}
      data-tip="${safe(tip)}" />`
  })
  const circles = names.map((name, place) => {
    const [[x, y], [labelX, labelY]] = [at(place), at(place, 1.12)]
    const [fill, tip] = [colour(scores[place] / limit), `${safe(name)}: ${short(scores[place])}`]
    return `
      <circle cx="${x}" cy="${y}" r="9" fill="rgb(${fill})" stroke="#808080" data-tip="${tip}" />
      <text x="${labelX}" y="${labelY + 4}" text-anchor="middle">${safe(name)}</text>`
  })
  const empty = `<text x="${middle}" y="${middle}" text-anchor="middle">${safe(none)}</text>`
  return `
    <marker id="head" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse"
      orient="auto"><path d="M0 0L6 3L0 6z" fill="#808080" /></marker>
    <g stroke="#808080" stroke-opacity="0.6">${lines.join("")}</g>${circles.join("") || empty}`
}

function ranking({ names, scores, colours, opacities }) {
  const [size, limit] = [SIDE - EDGE - 16, largest(scores)]
  const bar = (SIDE - 50) / (names.length || 1)
  const step = Math.ceil(names.length / MOST_LABELS) || 1
  return names.map((name, place) => {
    const [width, y] = [((Math.abs(scores[place]) / limit) * size) / 2, place * bar]
    const [x, fill] = scores[place] > 0 ? [EDGE + size / 2, colours[0]] : [EDGE + size / 2 - width, colours[1]]
    const label = place % step ? "" : `<text x="${EDGE - 4}" y="${y + bar / 2 + 3}" text-anchor="end">${safe(name)}</text>`
    const tip = `${safe(name)}: ${short(scores[place])}`
    return `${label}<rect x="${x}" y="${y}" width="${width}" height="${bar * 0.85}" fill="${fill}"
      opacity="${opacities[place]}" data-tip="${tip}" />`
  }).join("")
}

function showTip(tip, event, { names, values }) {
  let told = event.target.dataset.tip ?? ""
  if (event.target.tagName === "image") {
    const box = event.target.getBoundingClientRect()
    const cell = share => Math.max(0, Math.min(Math.floor(share * names.length), names.length - 1))
    const [y, x] = [cell((event.clientY - box.top) / box.height), cell((event.clientX - box.left) / box.width)]
    told = names.length ? `${names[y]} – ${names[x]}: ${short(values[y][x])}` : ""
  }
  const frame = tip.parentElement.getBoundingClientRect()
  Object.assign(tip, { hidden: !told, textContent: told })
  Object.assign(tip.style, { left: `${event.clientX - frame.left + 12}px`, top: `${event.clientY - frame.top + 12}px` })
}
