// SPDX-License-Identifier: MIT
// The time of inferences by ONNX Runtime, for networks.py. Arguments: the folder that has node_modules, and the number
// of threads. Does what the lines of its input say, and answers each with a line:
//
//   load {"model": FILE, "inputs": [{"name", "type", "dims"}...], "data": FILE, "outputs": FILE}
//       makes a session, runs it once with the bytes of data and writes the outputs; answers with the microseconds of
//       both, and the outputs' types
//   time N
//       N inferences; answers with the microseconds of one
'use strict';
const fs = require('fs');
const path = require('path');
const readline = require('readline');

const [, , folder, threads] = process.argv;
const home = path.join(path.resolve(folder), 'node_modules', 'onnxruntime-node');
const ort = require(home);

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array,
  bool: Uint8Array
};

let session = null;
let feeds = {};

const us = (since) => Number(process.hrtime.bigint() - since) / 1e3;

function tensors(inputs, bytes) {
  const made = {};
  let at = 0;
  for (const {name, type, dims} of inputs) {
    const kind = ARRAYS[type];
    if (!kind) throw new Error(`${name}: inputs of type ${type} are not known here`);
    const size = dims.reduce((a, b) => a * b, 1) * kind.BYTES_PER_ELEMENT;
    made[name] = new ort.Tensor(type, new kind(bytes.buffer.slice(bytes.byteOffset + at, bytes.byteOffset + at + size)),
                                dims);
    at += size;
  }
  return made;
}

async function load(what) {
  if (session) await session.release();
  feeds = tensors(what.inputs, fs.readFileSync(what.data));
  const start = process.hrtime.bigint();
  session = await ort.InferenceSession.create(
      what.model, {intraOpNumThreads: Number(threads), interOpNumThreads: 1, executionMode: 'sequential'});
  const loaded = us(start);
  const begin = process.hrtime.bigint();
  const results = await session.run(feeds);
  const first = us(begin);
  const outputs = session.outputNames.map((name) => results[name]);
  const bytes = outputs.map(({data}) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  fs.writeFileSync(what.outputs, Buffer.concat(bytes));
  return [loaded, first, ...outputs.map(({type, size}) => `${type}:${size}`)];
}

async function time(times) {
  const start = process.hrtime.bigint();
  for (let i = 0; i < times; i++) await session.run(feeds);
  return [us(start) / times];
}

async function main() {
  for await (const line of readline.createInterface({input: process.stdin})) {
    const [operation, rest] = [line.slice(0, 4), line.slice(5)];
    const answer = operation === 'load' ? await load(JSON.parse(rest)) : await time(Number(rest));
    process.stdout.write(answer.join(' ') + '\n');
  }
}

main().catch((error) => {
  process.stderr.write(`peer.js: ${error.message}\n`);
  process.exit(1);
});
