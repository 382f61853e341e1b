// SPDX-License-Identifier: MIT
#include "tests/fuzz/nets/external.h"

#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler/graph/print.h"
#include "compiler/import/importer.h"

namespace npu::fuzz {
namespace {

namespace fs = std::filesystem;

/// The paths of a model and its data below a folder.
struct Layout {
  const char *name, *model, *data;
  const char *location;  ///< of the data, as the model names it
  /// Links to the model, to the data and to the model's folder; empty: there is none.
  const char *linked_model = "", *linked_data = "", *linked_folder = "";
};

// Names of objects are hashes.
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
constexpr Layout kLayouts[] = {
    {"beside the model", "net.onnx", "net.data", "net.data"},
    {"in a folder below", "net.onnx", "weights/a/net.data", "weights/a/net.data"},
    {"by way of a folder and back", "net.onnx", "net.data", "./below/../net.data"},
    {"below a link to a folder", "real/net.onnx", "real/w/net.data", "w/net.data", "", "", "link"},
    {"beside what the model is a link to", "real/net.onnx", "real/net.data", "net.data", "links/net.onnx"},
    {"in the cache of Hugging Face", "hub/blobs/" HASH "1", "hub/blobs/" HASH "2", "net.data",
     "hub/snapshots/main/net.onnx", "hub/snapshots/main/net.data"},
    {"in the cache of DVC", ".dvc/cache/files/md5/0a/" HASH "1", ".dvc/cache/files/md5/0b/" HASH "2", "net.data",
     "work/net.onnx", "work/net.data"},
    {"in the objects of git-annex", ".git/annex/objects/Xy/9K/SHA256E-s1--" HASH "/SHA256E-s1--" HASH,
     ".git/annex/objects/0J/kP/SHA256E-s2--" HASH "/SHA256E-s2--" HASH, "net.data", "work/net.onnx", "work/net.data"},
};
#undef HASH

/// Moves the bytes of an initializer behind those of the others.
void move_out(onnx::TensorProto &t, const std::string &location, std::string &data) {
  std::string bytes = t.raw_data();
  for (const float v : t.float_data()) bytes.append(reinterpret_cast<const char *>(&v), sizeof v);
  for (const int64_t v : t.int64_data()) bytes.append(reinterpret_cast<const char *>(&v), sizeof v);
  if (bytes.empty()) return;  // other types have a form of their own
  data.resize((data.size() + 63) / 64 * 64);
  t.clear_raw_data();
  t.clear_float_data();
  t.clear_int64_data();
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto &[key, value] : {std::pair<const char *, std::string>{"location", location},
                                   {"offset", std::to_string(data.size())},
                                   {"length", std::to_string(bytes.size())}}) {
    auto &entry = *t.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  data += bytes;
}

void write(const fs::path &path, const std::string &bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void link(const fs::path &target, const fs::path &from) {
  fs::create_directories(from.parent_path());
  fs::create_symlink(fs::relative(target, from.parent_path()), from);
}

/// Writes model and data; returns the path by which the compiler gets the model.
fs::path write_layout(const Layout &l, const fs::path &top, const std::string &model, const std::string &data) {
  write(top / l.model, model);
  write(top / l.data, data);
  if (std::string(l.location).find("below/") != std::string::npos) fs::create_directories(top / "below");
  if (*l.linked_data) link(top / l.data, top / l.linked_data);
  if (*l.linked_folder) {
    link((top / l.model).parent_path(), top / l.linked_folder);
    return top / l.linked_folder / fs::path(l.model).filename();
  }
  if (!*l.linked_model) return top / l.model;
  link(top / l.model, top / l.linked_model);
  return top / l.linked_model;
}

std::string difference(const graph::Graph &got, const graph::Graph &expected) {
  if (graph::to_text(got) != graph::to_text(expected)) return "another graph";
  for (size_t v = 0; v < expected.values.size(); ++v)
    if (expected.values[v].constant && got.values[v].constant->data != expected.values[v].constant->data)
      return "constant '" + expected.values[v].name + "' has other bytes";
  return {};
}

}  // namespace

std::string check_external(const Made &made, const graph::Graph &expected) {
  onnx::ModelProto model;
  if (!model.ParseFromString(made.model)) return "the file cannot be read";
  const Layout &layout = kLayouts[made.data / 8 % std::size(kLayouts)];
  std::string data;
  for (onnx::TensorProto &t : *model.mutable_graph()->mutable_initializer()) move_out(t, layout.location, data);
  if (data.empty()) return {};
  std::string top = (fs::temp_directory_path() / "fuzz-nets-XXXXXX").string();
  if (!mkdtemp(top.data())) return "no temporary folder";
  const fs::path path = write_layout(layout, top, model.SerializeAsString(), data);
  graph::RawModel raw;
  graph::Graph g;
  Status status = graph::read_onnx_file(path.string(), raw);
  if (status.ok()) status = graph::import_model(raw, {}, g);
  const std::string text = status.ok() ? difference(g, expected) : status.message();
  fs::remove_all(top);
  return text.empty() ? text : std::string(layout.name) + ": " + text;
}

}  // namespace npu::fuzz
