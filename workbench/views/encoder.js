// A BERT encoder in plain JavaScript: WordPiece, the forward pass and pooling, one sentence at a time, in float32.

const PUNCTUATION = /[!-/:-@[-`{-~]|\p{P}/u, CONTROL = /[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/gu;
const CHINESE = /[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

// The words of workbench/words.py.
const SPACELESS = "[\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3040-\\u30ff\\u3400-\\u9fff]";
const WORD = new RegExp(`(?!\\p{P})${SPACELESS}|(?:(?!${SPACELESS})[\\p{L}\\p{M}\\p{N}_])+`, "gu");

class BertEncoder {
  constructor(given) {
    Object.assign(this, given); // label, config, pooling, longest, tokenizer, special, tensors, data
    const { model, added_tokens } = this.tokenizer;
    this.ids = new Map(Object.entries(model.vocab));
    this.added = new Map(added_tokens.map((token) => [token.content, token.id]));
    const [cls, sep, unk] = ["cls", "sep", "unk"].map((name) => {
      const token = this.special[`${name}_token`];
      return this.added.get(token) ?? this.ids.get(token);
    });
    Object.assign(this, { cls, sep, unk });
    const text = atob(this.data), bytes = Uint8Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
    this.weights = {};
    let start = 0;
    for (const [name, [rows, columns], kind] of this.tensors) {
      const size = rows * columns, values = (this.weights[name] = new Float32Array(size));
      if (kind === "int8") { // rows of whole numbers, and after them the scale of each row
        const whole = new Int8Array(bytes.buffer, start, size);
        const scales = new Float32Array(bytes.buffer.slice(start + size, start + size + 4 * rows));
        for (let i = 0; i < size; i++) values[i] = whole[i] * scales[(i / columns) | 0];
        start += size + 4 * rows;
      } else {
        const halves = new Uint16Array(bytes.buffer.slice(start, start + 2 * size));
        for (let i = 0; i < size; i++) values[i] = fromHalf(halves[i]);
        start += 2 * size;
      }
    }
    this.data = null;
  }

  tokens(sentence) {
    return [this.cls, ...this.found(sentence).slice(0, this.longest - 2), this.sep];
  }

  notes(sentence) { // what the vector does not tell of the sentence
    const found = this.found(sentence), most = this.longest - 2;
    const unknown = found.slice(0, most).filter((id) => id === this.unk).length;
    return [found.length > most && `cut after ${most} tokens`, unknown && `unknown tokens: ${unknown}`].filter(Boolean).join(", ");
  }

  found(sentence) {
    const kept = [...this.added.keys()].map((one) => one.replace(/\W/g, "\\$&"));
    const parts = sentence.split(new RegExp(`(${kept.join("|")})`));
    return parts.flatMap((part) => this.added.get(part) ?? this.plain(part));
  }

  plain(text) {
    const { lowercase, strip_accents, clean_text, handle_chinese_chars } = this.tokenizer.normalizer;
    if (clean_text) text = text.replace(CONTROL, "").replace(/[\s\p{Z}]/gu, " ");
    if (handle_chinese_chars) text = text.replace(CHINESE, " $& ");
    if (strip_accents ?? lowercase) text = text.normalize("NFD").replace(/\p{Mn}/gu, "");
    if (lowercase) text = [...text].map((letter) => letter.toLowerCase()).join("");
    const words = text.split(/\s+/u).flatMap((word) => word.split(new RegExp(`(${PUNCTUATION.source})`, "u")));
    return words.filter(Boolean).flatMap((word) => this.pieces([...word]));
  }

  pieces(letters) {
    if (letters.length > this.tokenizer.model.max_input_chars_per_word) return [this.unk];
    const found = [];
    for (let start = 0, end; start < letters.length; start = end) {
      let id;
      for (end = letters.length; end > start && id === undefined; end--) {
        id = this.ids.get((start ? "##" : "") + letters.slice(start, end).join(""));
      }
      if (id === undefined) return [this.unk];
      found.push(id);
      end++;
    }
    return found;
  }

  linear(x, name, rows) {
    const weight = this.weights[`${name}.weight`], bias = this.weights[`${name}.bias`];
    const inner = x.length / rows, outer = bias.length, y = new Float32Array(rows * outer);
    for (let o = 0; o < outer; o++) {
      const w = o * inner;
      for (let r = 0; r < rows; r++) {
        let a = 0, b = 0, c = 0, d = 0;
        let i = 0, p = r * inner;
        for (; i + 3 < inner; i += 4, p += 4) {
          a += x[p] * weight[w + i];
          b += x[p + 1] * weight[w + i + 1];
          c += x[p + 2] * weight[w + i + 2];
          d += x[p + 3] * weight[w + i + 3];
        }
        for (; i < inner; i++, p++) a += x[p] * weight[w + i]; // of a width that is no multiple of 4
        y[r * outer + o] = a + b + c + d + bias[o];
      }
    }
    return y;
  }

  normalized(x, name, rows, added) {
    const gain = this.weights[`${name}.weight`], bias = this.weights[`${name}.bias`], size = gain.length;
    for (let r = 0; r < rows; r++) {
      const row = x.subarray(r * size, (r + 1) * size);
      if (added) for (let i = 0; i < size; i++) row[i] += added[r * size + i];
      let mean = 0, spread = 0;
      for (const value of row) mean += value / size;
      for (const value of row) spread += (value - mean) ** 2 / size;
      const scale = 1 / Math.sqrt(spread + this.config.layer_norm_eps);
      for (let i = 0; i < size; i++) row[i] = (row[i] - mean) * scale * gain[i] + bias[i];
    }
    return x;
  }

  attention(x, name, rows) {
    const [q, k, v] = ["query", "key", "value"].map((part) => this.linear(x, `${name}.self.${part}`, rows));
    const size = x.length / rows, width = size / this.config.num_attention_heads, mixed = new Float32Array(x.length);
    for (let start = 0; start < size; start += width) {
      for (let r = 0; r < rows; r++) {
        const scores = new Float32Array(rows);
        for (let t = 0; t < rows; t++) {
          for (let i = start; i < start + width; i++) scores[t] += q[r * size + i] * k[t * size + i];
        }
        const most = Math.max(...scores), shares = scores.map((score) => Math.exp((score - most) / Math.sqrt(width)));
        const total = shares.reduce((sum, share) => sum + share, 0);
        for (let t = 0; t < rows; t++) {
          for (let i = start; i < start + width; i++) mixed[r * size + i] += (shares[t] / total) * v[t * size + i];
        }
      }
    }
    return this.normalized(this.linear(mixed, `${name}.output.dense`, rows), `${name}.output.LayerNorm`, rows, x);
  }

  encode(sentence) {
    const ids = this.tokens(sentence || " "), rows = ids.length, size = this.weights["embeddings.LayerNorm.weight"].length;
    // Each sentence is alone, so all its tokens are of the first segment.
    const [words, places, segment] = ["word", "position", "token_type"].map((of) => this.weights[`embeddings.${of}_embeddings.weight`]);
    const embedded = (_, i) => words[ids[(i / size) | 0] * size + (i % size)] + places[i] + segment[i % size];
    let x = Float32Array.from({ length: rows * size }, embedded);
    x = this.normalized(x, "embeddings.LayerNorm", rows);
    for (let layer = 0; layer < this.config.num_hidden_layers; layer++) {
      const name = `encoder.layer.${layer}`, seen = this.attention(x, `${name}.attention`, rows);
      const inner = this.linear(seen, `${name}.intermediate.dense`, rows).map(gelu);
      x = this.normalized(this.linear(inner, `${name}.output.dense`, rows), `${name}.output.LayerNorm`, rows, seen);
    }
    const pooled = new Float32Array(size), read = this.pooling === "cls" ? 1 : rows;
    for (let i = 0; i < read * size; i++) pooled[i % size] += x[i];
    const length = Math.hypot(...pooled);
    return pooled.map((value) => value / (length || 1)); // as in the notebook, a zero vector has the cosine 0
  }

  cosine(first, second) {
    return first.reduce((sum, value, i) => sum + value * second[i], 0);
  }
}

class WordOverlap {
  constructor({ label }) {
    this.label = label;
  }

  encode(sentence) {
    return new Set(sentence.toLowerCase().match(WORD) ?? []);
  }

  notes() {
    return "";
  }

  cosine(first, second) {
    const shared = [...first].filter((word) => second.has(word)).length;
    return shared / Math.sqrt(first.size * second.size || 1);
  }
}

function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

// x times the normal distribution, whose error function is Abramowitz and Stegun's 7.1.26 (off by at most 1.5e-7).
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const error = 1 - sum * Math.exp(-z * z);
  return 0.5 * x * (1 + (x < 0 ? -error : error));
}
