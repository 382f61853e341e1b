// SPDX-License-Identifier: MIT
#include "ort/ep/context.h"

#include <filesystem>

#include "ort/ep/cache.h"

namespace npu::ort {
namespace {

namespace fs = std::filesystem;

// Attributes of the operator EPContext of com.microsoft.
constexpr const char *kData = "ep_cache_context", *kEmbedded = "embed_mode", *kSource = "source";

template <class T>
bool attribute(Ort::ConstNode node, const char *name, T &out) {
  Ort::ConstOpAttr found{nullptr};
  const Ort::Status status = node.GetAttributeByName(name, found);
  return status.IsOK() && found && found.GetValue(out).IsOK();
}

/// The path of the model of compiled networks.
Status context_model(const std::string &model, const Options &options, fs::path &out) {
  if (!options.context_path.empty()) {
    out = options.context_path;
    return {};
  }
  if (model.empty()) return Status::error("ep.context_file_path: the model is in memory, and a path is expected");
  out = fs::path(model).replace_extension();
  out += "_ctx.onnx";
  return {};
}

/// A file in the model's folder: a model that was fetched from somewhere has no say about others.
Status file_beside(const fs::path &model, const std::string &name, fs::path &out) {
  if (name.empty() || name != fs::path(name).filename().string() || name == "." || name == "..")
    return Status::error("'" + name + "' is not the name of a file in the folder of the model");
  out = model.parent_path() / name;
  return {};
}

}  // namespace

bool is_own_context(Ort::ConstNode node) {
  std::string source;
  return node.GetOperatorType() == "EPContext" && attribute(node, kSource, source) && source == kProviderName;
}

Status read_context(Ort::ConstNode node, const std::string &model, const Options &options, Group &out) {
  const std::string who = "EPContext '" + node.GetName() + "'";
  std::string data;
  int64_t embedded = 1;
  attribute(node, kEmbedded, embedded);
  if (!attribute(node, kData, data)) return Status::error(who + ": it has no attribute " + kData);
  if (embedded) return unpack(data.data(), data.size(), out).within(who);
  fs::path path;
  std::vector<uint8_t> bytes;
  const std::string &known = model.empty() ? options.context_path : model;
  NPU_TRY(file_beside(known, data, path).within(who));
  if (!read_file(path.string(), bytes)) return Status::error(who + ": cannot read " + path.string());
  return unpack(bytes.data(), bytes.size(), out).within(who + ": " + path.string());
}

Status write_context(Ort::ConstNode fused, const std::string &model, const Options &options, const Group &group,
                     size_t number, OrtNode **out) {
  const std::vector<uint8_t> bytes = pack(group);
  std::string data(bytes.begin(), bytes.end());
  if (!options.context_embed) {
    fs::path path;
    NPU_TRY(context_model(model, options, path));
    data = path.stem().string() + "_qnpu_" + std::to_string(number) + ".bin";
    NPU_TRY(write_file((path.parent_path() / data).string(), bytes));
  }
  const auto names = [](const std::vector<Ort::ConstValueInfo> &infos) {
    std::vector<std::string> list;
    for (const Ort::ConstValueInfo &info : infos) list.push_back(info ? info.GetName() : "");
    return list;
  };
  const int64_t main_context = 1, embedded = options.context_embed;
  const std::string source = kProviderName;
  std::vector<Ort::OpAttr> attributes;
  attributes.emplace_back("main_context", &main_context, 1, ORT_OP_ATTR_INT);
  attributes.emplace_back(kEmbedded, &embedded, 1, ORT_OP_ATTR_INT);
  attributes.emplace_back(kData, data.data(), static_cast<int>(data.size()), ORT_OP_ATTR_STRING);
  attributes.emplace_back(kSource, source.data(), static_cast<int>(source.size()), ORT_OP_ATTR_STRING);
  Ort::Node node("EPContext", "com.microsoft", options.context_prefix + fused.GetName(), names(fused.GetInputs()),
                 names(fused.GetOutputs()), attributes);
  *out = node.release();
  return {};
}

}  // namespace npu::ort
