// SPDX-License-Identifier: MIT
#include "tools/npuc/folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "runtime/arrays/file.h"
#include "runtime/arrays/inputs.h"
#include "runtime/arrays/npy.h"

namespace npu::npuc {
namespace {

namespace fs = std::filesystem;
using arrays::FileKind;
using graph::Tensor;
using quantize::Input;

}  // namespace

Status read_labels(const std::string &path, std::map<std::string, int64_t> &out) {
  std::string text;
  NPU_TRY(arrays::read_file(path, text));
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
    const std::string file = it->path().lexically_relative(folder_).string();
    if (it->exists(failed) && !it->is_regular_file(failed))
      return Status::error(path(file) + " is no regular file: a pipe or a device has no end that is known");
    if (arrays::kind_of(file) == FileKind::None)
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
  const bool archives =
      std::all_of(files.begin(), files.end(), [](const auto &f) { return arrays::kind_of(f) == FileKind::Archive; });
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
  std::set<std::string> wanted;
  std::map<std::string, graph::TensorPtr> found;
  for (const Input &input : inputs_) wanted.insert(input.name);
  NPU_TRY(arrays::read_archive(path(file), wanted, found));
  for (const Input &input : inputs_) {
    if (!found.count(input.name)) return Status::error(path(file) + ": it has no array for input '" + input.name + "'");
    NPU_TRY(arrays::fit(*found[input.name], input, out.emplace_back()).within(path(file) + ": " + input.name + ".npy"));
  }
  return {};
}

Status FolderSamples::load_file(const std::string &file, const Input &input, Tensor &out) const {
  const FileKind kind = arrays::kind_of(file);
  if (kind == FileKind::Array) {
    graph::TensorPtr tensor;
    NPU_TRY(arrays::read_npy(path(file), tensor));
    return arrays::fit(*tensor, input, out).within(path(file));
  }
  if (kind == FileKind::Archive)
    return Status::error(path(file) + ": .npz files stand alone, not beside others in a network of several inputs");
  if (!preprocess_)
    return Status::error(path(file) + ": pictures need --preprocess, which says how the network sees them");
  Tensor tensor;
  NPU_TRY(arrays::read_picture(path(file), *preprocess_, tensor));
  return arrays::fit(tensor, input, out).within(path(file));
}

Status FolderSamples::load(size_t index, std::vector<Tensor> &out) const {
  const Sample &sample = samples_[index];
  out.clear();
  if (sample.files.size() == 1 && arrays::kind_of(sample.files[0]) == FileKind::Archive)
    return load_archive(sample.files[0], out);
  for (size_t k = 0; k < inputs_.size(); ++k) NPU_TRY(load_file(sample.files[k], inputs_[k], out.emplace_back()));
  return {};
}

}  // namespace npu::npuc
