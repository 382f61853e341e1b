// SPDX-License-Identifier: MIT
#include "runtime/arrays/inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "runtime/arrays/file.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/zip.h"
#include "runtime/cpu/element.h"

namespace npu::arrays {
namespace {

using cpu::Dtype;
using cpu::Shape;
using cpu::Tensor;

const char *const kPictures[] = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm"};

std::string extension(const std::string &file) {
  std::string out = std::filesystem::path(file).extension().string();
  for (char &c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// The shape without dimensions of 1 in front.
Shape without_ones(const Shape &shape) {
  return {std::find_if(shape.begin(), shape.end(), [](int64_t d) { return d != 1; }), shape.end()};
}

/// Numbers in the type of an input. Integers are no floating-point numbers, and have to fit.
Status convert(const Tensor &from, Tensor &out) {
  if (from.dtype == out.dtype) {
    out.data = from.data;
    return {};
  }
  const int64_t n = from.count();
  if (out.dtype != Dtype::F32 && !cpu::is_integer(from.dtype))
    return Status::error("it has numbers of type " + std::string(cpu::dtype_name(from.dtype)) + ", " +
                         cpu::dtype_name(out.dtype) + " is expected");
  for (int64_t i = 0; i < n; ++i) {
    if (out.dtype == Dtype::F32) {
      cpu::store(out, i, cpu::load(from, i));
      continue;
    }
    const int64_t v = cpu::load_integer(from, i);
    cpu::store_integer(out, i, v);
    // As int64 a uint64 of 2^63 or more is negative; and of both types one alone is uint64.
    const bool large = from.dtype == Dtype::U64 && v < 0, lost = large || (out.dtype == Dtype::U64 && v < 0);
    if (lost || cpu::load_integer(out, i) != v)
      return Status::error("element " + std::to_string(i) + " is " +
                           (large ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v)) + ", which " +
                           cpu::dtype_name(out.dtype) + " cannot hold");
  }
  return {};
}

}  // namespace

FileKind kind_of(const std::string &file) {
  const std::string end = extension(file);
  if (end == ".npy") return FileKind::Array;
  if (end == ".npz") return FileKind::Archive;
  const bool picture = std::find(std::begin(kPictures), std::end(kPictures), end) != std::end(kPictures);
  return picture ? FileKind::Picture : FileKind::None;
}

Status fit(const Tensor &from, const Input &input, Tensor &out) {
  const Shape given = without_ones(from.shape);
  Shape row = input.shape;
  if (!row.empty()) row.erase(row.begin());
  const bool whole = given == without_ones(input.shape);
  if (!whole && given != without_ones(row))
    return Status::error("it has the shape " + cpu::shape_text(from.shape) + ", input '" + input.name + "' has " +
                         cpu::shape_text(input.shape));
  Tensor one(input.dtype, whole ? input.shape : row);
  NPU_TRY(convert(from, one));
  if (whole) {
    out = std::move(one);
    return {};
  }
  out = Tensor(input.dtype, input.shape);
  for (size_t at = 0; at < out.data.size(); at += one.data.size())
    std::memcpy(out.data.data() + at, one.data.data(), one.data.size());
  return {};
}

Status read_archive(const std::string &path, const std::set<std::string> &names,
                    std::map<std::string, cpu::TensorPtr> &out, std::set<std::string> *others) {
  std::string bytes;
  std::set<std::string> wanted, unknown;
  std::map<std::string, std::string> files;
  for (const std::string &name : names) wanted.insert(name + ".npy");
  NPU_TRY(read_file(path, bytes));
  NPU_TRY(unzip(bytes, wanted, files, &unknown).within(path));
  for (const std::string &name : names) {
    const auto found = files.find(name + ".npy");
    if (found != files.end()) NPU_TRY(parse_npy(found->second, out[name]).within(path + ": " + found->first));
  }
  for (const std::string &file : unknown)
    if (others) others->insert(file.ends_with(".npy") ? file.substr(0, file.size() - 4) : file);
  return {};
}

Status read_picture(const std::string &path, const Preprocess &preprocess, Tensor &out) {
  std::string bytes;
  Picture picture;
  NPU_TRY(read_file(path, bytes));
  NPU_TRY(parse_picture(bytes, picture).within(path));
  return to_tensor(picture, preprocess, out).within(path);
}

}  // namespace npu::arrays
