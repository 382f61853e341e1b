// SPDX-License-Identifier: MIT
// onnxruntime-node, whose sessions run on the NPU what it can compute:
//
//     const ort = require('onnxruntime-qnpu');     // was: require('onnxruntime-node')
//
// Options of the provider: { extra: { ep: { qnpuexecutionprovider: { cores: '2' } } } } among those of a session.
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');

const NAME = 'libqnpu_ort.so';
// Folders of libraries: the build's, the installed ones' (this file is in share/qnpu/onnxruntime-qnpu), Debian's.
const TRIPLET = `${{ x64: 'x86_64', arm64: 'aarch64' }[process.arch]}-linux-gnu`;
const FOLDERS = [process.env.QNPU_LIBRARIES, path.join(__dirname, '../../build/lib'),
                 path.join(__dirname, '../../../lib/qnpu'), path.join(__dirname, '../../../lib', TRIPLET, 'qnpu')];

function findLibrary() {
  const own = process.env.QNPU_LIBRARIES;  // who names a folder wants no other's library
  if (own && !fs.existsSync(path.join(own, NAME)))
    throw new Error(`onnxruntime-qnpu: there is no ${NAME} in QNPU_LIBRARIES=${own}`);
  const found = FOLDERS.filter(Boolean).map((folder) => path.join(folder, NAME)).find((file) => fs.existsSync(file));
  if (!found) throw new Error(`onnxruntime-qnpu: there is no ${NAME} in ${FOLDERS.filter(Boolean).join(', ')}`);
  return fs.realpathSync(found);
}

// The program's own copy of onnxruntime-node, as it would have loaded it.
function findRuntime() {
  const from = [require.main ? path.dirname(require.main.filename) : process.cwd(), process.cwd(), __dirname];
  return require.resolve('onnxruntime-node', { paths: from });
}

const runtime = findRuntime();
if (require.cache[runtime])
  throw new Error('onnxruntime-qnpu: onnxruntime-node is loaded already; load this module in its place');
process.dlopen({ exports: {} }, findLibrary(), os.constants.dlopen.RTLD_NOW | os.constants.dlopen.RTLD_GLOBAL);
module.exports = require(runtime);
