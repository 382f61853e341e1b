// SPDX-License-Identifier: MIT
#include "tools/npuc/folder.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "compiler/api/file.h"
#include "compiler/api/npy.h"
#include "runtime/cpu/element.h"
#include "tools/npuc/zip.h"

namespace npu::npuc {
namespace {

namespace fs = std::filesystem;
using graph::Dtype;
using graph::Shape;
using graph::Tensor;
using quantize::Input;

const char *const kArray = ".npy", *const kArchive = ".npz";
const char *const kPictures[] = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm"};

std::string extension(const std::string &file) {
  std::string out = fs::path(file).extension().string();
  for (char &c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_picture(const std::string &file) {
  return std::find(std::begin(kPictures), std::end(kPictures), extension(file)) != std::end(kPictures);
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
    return Status::error("it has numbers of type " + std::string(graph::dtype_name(from.dtype)) + ", " +
                         graph::dtype_name(out.dtype) + " is expected");
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
                           graph::dtype_name(out.dtype) + " cannot hold");
  }
  return {};
}

/// A tensor as the input wants it.
Status fit(const Tensor &from, const Input &input, Tensor &out) {
  const Shape given = without_ones(from.shape);
  Shape row = input.shape;
  if (!row.empty()) row.erase(row.begin());
  const bool whole = given == without_ones(input.shape);
  if (!whole && given != without_ones(row))
    return Status::error("it has the shape " + graph::shape_text(from.shape) + ", input '" + input.name + "' has " +
                         graph::shape_text(input.shape));
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

}  // namespace

Status read_labels(const std::string &path, std::map<std::string, int64_t> &out) {
  std::string text;
  NPU_TRY(compiler::read_file(path, text));
  std::istringstream lines(text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto wrong = [&](const std::string &what) {
      return Status::error(path + ": line " + std::to_string(number) + ": " + what);
    };
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line[0] == '#') continue;
    const size_t blank = line.find_last_of(" \t");
    int64_t label = 0;
    const char *first = line.data() + (blank == std::string::npos ? 0 : blank + 1), *last = line.data() + line.size();
    const auto [end, failed] = std::from_chars(first, last, label);
    if (blank == std::string::npos || failed != std::errc() || end != last)
      return wrong("a sample's name and the number of its class are expected");
    const std::string name = line.substr(0, line.find_last_not_of(" \t", blank) + 1);
    if (!out.emplace(name, label).second) return wrong("sample '" + name + "' has a line already");
  }
  return {};
}

Status FolderSamples::list_files(std::vector<std::string> &out) const {
  std::error_code failed;
  if (!fs::is_directory(folder_, failed)) return Status::error("there is no folder " + folder_);
  const auto follow = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(folder_, follow, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->path().filename().string()[0] == '.') {
      it.disable_recursion_pending();
      continue;
    }
    if (it->is_directory(failed)) continue;
    const std::string file = it->path().lexically_relative(folder_).string(), kind = extension(file);
    if (it->exists(failed) && !it->is_regular_file(failed))
      return Status::error(path(file) + " is no regular file: a pipe or a device has no end that is known");
    if (kind != kArray && kind != kArchive && !is_picture(file))
      return Status::error(path(file) + ": a sample's file ends in .npy, .npz, .png, .jpg, .jpeg, .bmp, .ppm or .pgm");
    out.push_back(file);
  }
  if (failed) return Status::error("cannot read the folder " + folder_ + ": " + failed.message());
  if (out.empty())
    return Status::error("the folder " + folder_ + " has no samples: .npy, .npz and pictures are expected");
  std::sort(out.begin(), out.end());
  return {};
}

/// Files of the same name in the folders of all inputs, and no others.
Status FolderSamples::group_by_input(const std::vector<std::string> &files) {
  std::map<std::string, std::vector<std::string>> found;
  std::set<std::string> others(files.begin(), files.end());
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const std::string prefix = inputs_[k].name + "/";
    bool any = false;
    for (const std::string &file : files) {
      if (file.compare(0, prefix.size(), prefix) != 0) continue;
      any = true;
      others.erase(file);
      const std::string name = fs::path(file.substr(prefix.size())).replace_extension().string();
      std::vector<std::string> &sample = found[name];
      sample.resize(inputs_.size());
      if (!sample[k].empty())
        return Status::error(path(sample[k]) + " and " + path(file) + " are both sample '" + name + "' of input '" +
                             inputs_[k].name + "'");
      sample[k] = file;
    }
    if (!any)
      return Status::error("there is no data for input '" + inputs_[k].name + "' of " + std::to_string(inputs_.size()) +
                           ": " + path(prefix) +
                           " with .npy files or pictures is expected, or .npz files with all inputs");
  }
  if (!others.empty())
    return Status::error(path(*others.begin()) + " is in the folder of no input, such as " + path(inputs_[0].name));
  for (const auto &[name, list] : found) {
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (list[k].empty())
        return Status::error("sample '" + name + "' has no file for input '" + inputs_[k].name + "' in " +
                             path(inputs_[k].name));
    samples_.push_back({name, list});
  }
  return {};
}

Status FolderSamples::open(const std::vector<Input> &inputs) {
  inputs_ = inputs;
  samples_.clear();
  std::vector<std::string> files;
  NPU_TRY(list_files(files));
  const bool archives = std::all_of(files.begin(), files.end(), [](const auto &f) { return extension(f) == kArchive; });
  if (archives || inputs_.size() == 1)
    for (const std::string &file : files) samples_.push_back({file, {file}});
  else
    NPU_TRY(group_by_input(files));
  if (samples_.size() > most_) {
    std::vector<Sample> some;
    for (size_t i = 0; i < most_; ++i) some.push_back(samples_[i * samples_.size() / most_]);
    samples_ = std::move(some);
  }
  return {};
}

Status FolderSamples::load_archive(const std::string &file, std::vector<Tensor> &out) const {
  std::string bytes;
  std::set<std::string> wanted;
  std::map<std::string, std::string> arrays;
  for (const Input &input : inputs_) wanted.insert(input.name + kArray);
  NPU_TRY(compiler::read_file(path(file), bytes));
  NPU_TRY(unzip(bytes, wanted, arrays).within(path(file)));
  for (const Input &input : inputs_) {
    const auto found = arrays.find(input.name + kArray);
    if (found == arrays.end()) return Status::error(path(file) + ": it has no array for input '" + input.name + "'");
    graph::TensorPtr tensor;
    NPU_TRY(compiler::parse_npy(found->second, tensor).within(path(file) + ": " + found->first));
    NPU_TRY(fit(*tensor, input, out.emplace_back()).within(path(file) + ": " + found->first));
  }
  return {};
}

Status FolderSamples::load_file(const std::string &file, const Input &input, Tensor &out) const {
  if (extension(file) == kArray) {
    graph::TensorPtr tensor;
    NPU_TRY(compiler::read_npy(path(file), tensor));
    return fit(*tensor, input, out).within(path(file));
  }
  if (extension(file) == kArchive)
    return Status::error(path(file) + ": .npz files stand alone, not beside others in a network of several inputs");
  if (!preprocess_)
    return Status::error(path(file) + ": pictures need --preprocess, which says how the network sees them");
  std::string bytes;
  Picture picture;
  Tensor tensor;
  NPU_TRY(compiler::read_file(path(file), bytes));
  NPU_TRY(parse_picture(bytes, picture).within(path(file)));
  NPU_TRY(to_tensor(picture, *preprocess_, tensor).within(path(file)));
  return fit(tensor, input, out).within(path(file));
}

Status FolderSamples::load(size_t index, std::vector<Tensor> &out) const {
  const Sample &sample = samples_[index];
  out.clear();
  if (sample.files.size() == 1 && extension(sample.files[0]) == kArchive) return load_archive(sample.files[0], out);
  for (size_t k = 0; k < inputs_.size(); ++k) NPU_TRY(load_file(sample.files[k], inputs_[k], out.emplace_back()));
  return {};
}

}  // namespace npu::npuc
