// SPDX-License-Identifier: MIT
// The only file that knows protobuf.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/graph/obstacle.h"
#include "compiler/import/content_store.h"
#include "compiler/import/external_files.h"
#include "compiler/import/narrow.h"
#include "compiler/import/raw_model.h"

namespace npu::graph {
namespace {

/// The version for a file that imports operator sets of other domains alone; ONNX Runtime takes its newest, too.
constexpr int64_t kNewestOpset = kMaxOpset;

constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;  // protobuf's own limit

template <class Out, class Field>
void widen(const Field &field, Tensor &tensor) {
  Out *out = tensor.as<Out>();
  for (int i = 0; i < field.size(); ++i) out[i] = static_cast<Out>(field[i]);
}

Dtype type_of(int32_t number) { return number >= 0 && number <= 255 ? static_cast<Dtype>(number) : Dtype::Undefined; }

/// Number of elements in the typed field that carries this element type, -1 if there is none.
int typed_size(const onnx::TensorProto &t, Dtype type) {
  switch (type) {
    case Dtype::F32:
      return t.float_data_size();
    case Dtype::F64:
      return t.double_data_size();
    case Dtype::I64:
      return t.int64_data_size();
    case Dtype::U32:
    case Dtype::U64:
      return t.uint64_data_size();
    case Dtype::String:
    case Dtype::Undefined:
      return -1;
    default:
      return t.int32_data_size();
  }
}

void copy_typed(const onnx::TensorProto &t, Tensor &out) {
  switch (out.dtype) {
    case Dtype::F32:
      widen<float>(t.float_data(), out);
      break;
    case Dtype::F64:
      widen<double>(t.double_data(), out);
      break;
    case Dtype::I64:
      widen<int64_t>(t.int64_data(), out);
      break;
    case Dtype::U32:
      widen<uint32_t>(t.uint64_data(), out);
      break;
    case Dtype::U64:
      widen<uint64_t>(t.uint64_data(), out);
      break;
    case Dtype::I32:
      widen<int32_t>(t.int32_data(), out);
      break;
    case Dtype::I16:
    case Dtype::U16:
    case Dtype::F16:
    case Dtype::BF16:
      widen<uint16_t>(t.int32_data(), out);
      break;
    default:
      widen<uint8_t>(t.int32_data(), out);
      break;
  }
}

/// The folders of external data. By default there are none.
struct Folder {
  Folder() = default;
  /// `model`: path of the file, which may be a link.
  explicit Folder(const std::filesystem::path &model)
      : given(std::filesystem::absolute(model).parent_path()), real(real_path(model)) {}

  std::filesystem::path given;  ///< folder of the model's file
  std::filesystem::path real;   ///< the file itself, behind all links

  static std::filesystem::path real_path(const std::filesystem::path &path) {
    std::error_code failed;
    const auto out = std::filesystem::canonical(path, failed);
    return failed ? std::filesystem::path() : out;
  }
};

/// The fields of a tensor with external data.
struct External {
  std::string location;
  uint64_t offset = 0, length = 0;
  bool has_length = false;
};

Status read_external(const onnx::TensorProto &t, External &out) {
  for (const auto &e : t.external_data()) {
    if (e.key() == "location") out.location = e.value();
    if (e.key() != "offset" && e.key() != "length") continue;
    uint64_t &number = e.key() == "offset" ? out.offset : out.length;
    out.has_length = out.has_length || e.key() == "length";
    const char *const end = e.value().data() + e.value().size();
    if (std::from_chars(e.value().data(), end, number).ptr != end || e.value().empty())
      return Status::error("external data: " + e.key() + " '" + e.value() + "' is not a number");
  }
  return out.location.empty() ? Status::error("external data without a location") : Status();
}

bool lies_below(const std::filesystem::path &path, const std::filesystem::path &folder) {
  const auto relative = path.lexically_relative(folder);
  return !folder.empty() && !relative.empty() && *relative.begin() != "..";
}

/// True if a model's data may be read from a file; both paths are free of links. Only files of the model's folder, and
/// where the model is a link of the folder that the link leads to, or of the same store.
bool is_permitted(const Folder &folder, const std::filesystem::path &data) {
  return lies_below(data, Folder::real_path(folder.given)) || lies_below(data, folder.real.parent_path()) ||
         in_one_store(folder.real, data);
}

/// Why a file may not be read, and what to do.
Status outside(const Folder &folder, const std::string &location, const std::filesystem::path &data) {
  const auto given = Folder::real_path(folder.given), real = folder.real.parent_path();
  std::string text = "external data: '" + location + "' lies outside of the model's folder " + given.string();
  if (real != given) text += ", and of " + real.string() + ", to which the model is a link";
  text += ": it is " + data.string();
  return refuse(Obstacle::Unsuitable, text + "; copy model and data into one folder (cp -L follows links)");
}

/// Finds the file of external data in the model's folder, or beside the file that the model is a link to.
Status external_path(const Folder &folder, const std::string &location, std::filesystem::path &out) {
  if (folder.given.empty())
    return Status::error(
        "its data is in another file (external data): that needs the model's file, not its bytes alone");
  if (location.find('\0') != location.npos) return Status::error("external data: its location has a byte 0");
  std::error_code failed, ignored;
  out = std::filesystem::canonical(folder.given / location, failed);
  if (failed) {
    const auto beside = Folder::real_path(folder.real.parent_path() / location);
    const bool dangling = std::filesystem::is_symlink(folder.given / location, ignored);
    if (beside.empty())
      return refuse(
          Obstacle::Unsuitable,
          "external data: cannot open '" + location + "': " + failed.message() +
              (dangling ? ", to which it is a link" : "") + "; the model's weights are expected in " +
              (folder.given / location).lexically_normal().string() +
              ": copy the file there, or save the model with its weights inside (onnx.save of a loaded model)");
    out = beside;
  }
  if (!is_permitted(folder, out)) return outside(folder, location, out);
  if (!std::filesystem::is_regular_file(out, failed))
    return refuse(Obstacle::Unsuitable, "external data: '" + location + "' is not a regular file; copy the data there");
  return {};
}

/// "; it is a Git LFS pointer, ...": where a file stands for another one that was not fetched. Else empty.
std::string pointer_text(const std::filesystem::path &path) {
  char begin[48] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin - 1);
  const std::string_view text(begin);
  if (text.starts_with("version https://git-lfs.github.com/spec/"))
    return "; it is a Git LFS pointer, which stands for the file until `git lfs pull` fetches it";
  if (text.starts_with("/annex/objects/"))
    return "; it is a git-annex pointer, which stands for the file until `git annex get` fetches it";
  return {};
}

/// A tensor of that kind, whose data has that size.
Status load_external(const onnx::TensorProto &t, const Folder &folder, const TensorKind &kind, uint64_t bytes,
                     TensorPtr &out) {
  External external;
  NPU_TRY(read_external(t, external));
  std::filesystem::path path;
  NPU_TRY(external_path(folder, external.location, path));
  const std::string who = "external data '" + external.location + "'";
  if (external.has_length && external.length != bytes)
    return refuse(Obstacle::Unsuitable, who + ": " + std::to_string(external.length) + " bytes, the tensor has " +
                                            std::to_string(bytes) + "; export model and data again");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = file ? static_cast<uint64_t>(std::max<std::streamoff>(file.tellg(), 0)) : 0;
  if (external.offset > size || size - external.offset < bytes)
    return refuse(Obstacle::Unsuitable, who + ": it has " + std::to_string(size) + " bytes, the tensor begins at " +
                                            std::to_string(external.offset) + " and has " + std::to_string(bytes) +
                                            pointer_text(path) + "; " + path.string() +
                                            " is not whole, or of another model: copy, download or export both again");
  file.seekg(static_cast<std::streamoff>(external.offset));
  auto tensor = std::make_shared<Tensor>(kind.dtype, kind.shape);
  tensor->data.resize(bytes);
  file.read(reinterpret_cast<char *>(tensor->data.data()), static_cast<std::streamsize>(bytes));
  out = std::move(tensor);
  return file ? Status() : Status::error("cannot read " + who);
}

/// A tensor of less than 8 bits an element, or of floating point of 8: its bytes, as the file packs them. In int32_data
/// each number is such a byte.
Status read_narrow(const onnx::TensorProto &t, const TensorKind &kind, uint64_t bytes, const std::string &what,
                   TensorPtr &out) {
  const auto have = t.has_raw_data() ? t.raw_data().size() : static_cast<uint64_t>(t.int32_data_size());
  if (have != bytes)
    return Status::error(what + ": " + kind_text(kind) + " needs " + std::to_string(bytes) + " bytes, the file has " +
                         std::to_string(have));
  auto tensor = std::make_shared<Tensor>(kind.dtype, kind.shape);
  if (t.has_raw_data())
    tensor->data.assign(t.raw_data().begin(), t.raw_data().end());
  else
    for (const int32_t byte : t.int32_data()) tensor->data.push_back(static_cast<uint8_t>(byte));
  out = std::move(tensor);
  return {};
}

Status read_tensor(const onnx::TensorProto &t, const Folder &folder, const std::string &what, TensorPtr &out) {
  const bool external = t.data_location() == onnx::TensorProto::EXTERNAL;
  if (t.has_segment()) return Status::error(what + ": tensors in segments are not supported");
  const Dtype type = type_of(t.data_type());
  const bool narrow = narrow_bits(type) != 0;
  if (dtype_bytes(type) == 0 && !narrow) {
    // Kept without data: an error only for an operator that reads it.
    auto empty = std::make_shared<Tensor>();
    empty->dtype = type;
    empty->shape = {0};
    out = std::move(empty);
    return {};
  }
  const Shape shape(t.dims().begin(), t.dims().end());
  const int64_t count = element_count(shape);
  if (count < 0) return Status::error(what + ": shape " + shape_text(shape) + " is negative or too large");
  const uint64_t bytes = narrow ? narrow_bytes(type, count) : static_cast<uint64_t>(count) * dtype_bytes(type);
  if (external) return load_external(t, folder, {type, shape}, bytes, out).within(what);
  if (narrow) return read_narrow(t, {type, shape}, bytes, what, out);
  if (t.has_raw_data() ? t.raw_data().size() != bytes : typed_size(t, type) != count)
    return Status::error(what + ": " + shape_text(shape) + " of " + dtype_name(type) + " needs " +
                         std::to_string(count) + " elements, the file has " +
                         std::to_string(t.has_raw_data() ? static_cast<int64_t>(t.raw_data().size() / dtype_bytes(type))
                                                         : typed_size(t, type)));
  auto tensor = std::make_shared<Tensor>(type, shape);
  if (t.has_raw_data()) {
    if (bytes) std::memcpy(tensor->data.data(), t.raw_data().data(), bytes);
  } else {
    copy_typed(t, *tensor);
  }
  out = std::move(tensor);
  return {};
}

/// The contents of a field of bytes, texts or messages that Debian 12's ONNX does not declare; Debian 13's declares
/// all.
[[maybe_unused]] std::vector<std::string> unknown_field(const google::protobuf::UnknownFieldSet &fields, int number) {
  std::vector<std::string> out;
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto &field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      out.push_back(field.length_delimited());
  }
  return out;
}

/// Which of several functions of one name: a field since IR version 10.
template <class Message>
std::string overload_of(const Message &m, int number) {
  if constexpr (requires { m.overload(); }) {
    return m.overload();
  } else {
    const std::vector<std::string> found = unknown_field(m.unknown_fields(), number);
    return found.empty() ? std::string() : found.back();
  }
}

/// Attributes of a function with the value that they have where a call gives none: a field since IR version 9.
template <class Function>
Status default_attributes(const Function &f, std::vector<onnx::AttributeProto> &out) {
  if constexpr (requires { f.attribute_proto(); }) {
    out.assign(f.attribute_proto().begin(), f.attribute_proto().end());
  } else {
    for (const std::string &bytes : unknown_field(f.unknown_fields(), 11))
      if (!out.emplace_back().ParseFromString(bytes)) return Status::error("an attribute of it cannot be parsed");
  }
  return {};
}

Status read_graph(onnx::GraphProto &g, const Folder &folder, RawGraph &graph);

Status read_attribute(const onnx::AttributeProto &a, const Folder &folder, const std::string &node, RawAttribute &out) {
  out.reference = a.ref_attr_name();
  switch (a.type()) {
    case onnx::AttributeProto::INT:
      out.i = a.i();
      break;
    case onnx::AttributeProto::FLOAT:
      out.f = a.f();
      break;
    case onnx::AttributeProto::STRING:
      out.s = a.s();
      break;
    case onnx::AttributeProto::INTS:
      out.ints.assign(a.ints().begin(), a.ints().end());
      break;
    case onnx::AttributeProto::FLOATS:
      out.floats.assign(a.floats().begin(), a.floats().end());
      break;
    case onnx::AttributeProto::STRINGS:
      out.strings.assign(a.strings().begin(), a.strings().end());
      break;
    case onnx::AttributeProto::GRAPH: {
      auto body = std::make_shared<RawGraph>();
      onnx::GraphProto graph = a.g();
      NPU_TRY(read_graph(graph, folder, *body).within("node '" + node + "', attribute '" + a.name() + "'"));
      out.graph = std::move(body);
      break;
    }
    case onnx::AttributeProto::TENSOR:
      return read_tensor(a.t(), folder, "node '" + node + "', attribute '" + a.name() + "'", out.tensor);
    default:
      out.other = true;
  }
  return {};
}

Status read_node(const onnx::NodeProto &n, const Folder &folder, RawNode &out) {
  out.name = n.name();
  out.type = n.op_type();
  out.domain = n.domain() == "ai.onnx" ? "" : n.domain();
  out.overload = overload_of(n, 8);
  out.inputs.assign(n.input().begin(), n.input().end());
  out.outputs.assign(n.output().begin(), n.output().end());
  for (const auto &a : n.attribute())
    NPU_TRY(read_attribute(a, folder, n.name().empty() && n.output_size() ? n.output(0) : n.name(),
                           out.attributes[a.name()]));
  return {};
}

RawValue read_value(const onnx::ValueInfoProto &v) {
  RawValue out;
  out.name = v.name();
  out.is_tensor = v.type().has_tensor_type();
  if (!out.is_tensor) return out;
  const auto &t = v.type().tensor_type();
  out.dtype = type_of(t.elem_type());
  out.has_shape = t.has_shape();
  for (const auto &d : t.shape().dim()) {
    RawDim dim;
    // Exporters write an unknown dimension as a symbol, as nothing at all, and as 0 or -1.
    if (d.has_dim_value() && d.dim_value() > 0)
      dim.value = d.dim_value();
    else
      dim.symbol = d.dim_param();
    dim.zero = d.has_dim_value() && d.dim_value() == 0;
    out.dims.push_back(std::move(dim));
  }
  return out;
}

/// Programs find networks, inputs and outputs by their names, as C strings.
Status check_c_string(const std::string &name, const std::string &what) {
  return name.find('\0') == name.npos ? Status() : Status::error("the name of " + what + " has a byte 0");
}

Status check_name(const std::string &name, const char *what, int index) {
  const std::string who = std::string(what) + " " + std::to_string(index) + " of the graph";
  return name.empty() ? Status::error(who + " has no name") : check_c_string(name, who);
}

/// Tensors are dropped from `g` as they are read: weights are in memory once.
Status read_graph(onnx::GraphProto &g, const Folder &folder, RawGraph &model) {
  NPU_TRY(check_c_string(g.name(), "the graph"));
  model.graph_name = g.name();
  if (g.sparse_initializer_size()) return Status::error("sparse initializers are not supported");
  for (auto &t : *g.mutable_initializer()) {
    const std::string who = "initializer '" + t.name() + "'";
    if (model.initializers.count(t.name())) return Status::error("two initializers have the name '" + t.name() + "'");
    NPU_TRY(read_tensor(t, folder, who, model.initializers[t.name()]));
    t.Clear();
  }
  std::set<std::string> names;
  for (int i = 0; i < g.output_size(); ++i) NPU_TRY(check_name(g.output(i).name(), "output", i));
  for (int i = 0; i < g.input_size(); ++i) {
    const auto &v = g.input(i);
    if (model.initializers.count(v.name())) continue;
    NPU_TRY(check_name(v.name(), "input", i));
    if (!names.insert(v.name()).second) return Status::error("two inputs have the name '" + v.name() + "'");
    model.inputs.push_back(read_value(v));
  }
  for (const auto &v : g.output()) model.outputs.push_back(read_value(v));
  for (const auto &v : g.value_info()) model.values.push_back(read_value(v));
  for (const auto &n : g.node()) NPU_TRY(read_node(n, folder, model.nodes.emplace_back()));
  return {};
}

/// The version of ONNX's own operators; 0: the list has none.
template <class Imports>
int64_t standard_opset(const Imports &imports) {
  int64_t version = 0;
  for (const auto &o : imports)
    if (o.domain().empty() || o.domain() == "ai.onnx") version = std::max<int64_t>(version, o.version());
  return version;
}

Status read_function(const onnx::FunctionProto &f, const Folder &folder, RawFunction &out) {
  out.name = f.name();
  out.domain = f.domain() == "ai.onnx" ? "" : f.domain();
  out.overload = overload_of(f, 13);
  out.opset = standard_opset(f.opset_import());
  out.inputs.assign(f.input().begin(), f.input().end());
  out.outputs.assign(f.output().begin(), f.output().end());
  out.attributes.assign(f.attribute().begin(), f.attribute().end());
  std::vector<onnx::AttributeProto> defaults;
  NPU_TRY(default_attributes(f, defaults));
  for (const auto &a : defaults) NPU_TRY(read_attribute(a, folder, f.name(), out.defaults[a.name()]));
  for (const auto &n : f.node()) NPU_TRY(read_node(n, folder, out.nodes.emplace_back()));
  return {};
}

Status read_model(onnx::ModelProto &proto, const Folder &folder, RawModel &model) {
  if (!proto.has_graph() || !proto.has_ir_version() || proto.graph().output_size() == 0)
    return Status::error("not an ONNX file: it has no graph with outputs");
  model.opset = standard_opset(proto.opset_import());
  model.has_opset = model.opset != 0;
  constexpr int64_t kFirstIrWithImports = 3;
  if (!model.has_opset && proto.opset_import().empty() && proto.ir_version() >= kFirstIrWithImports)
    return Status::error("the file names no operator set (opset_import is empty), at least one was expected");
  if (!model.has_opset) model.opset = proto.ir_version() < kFirstIrWithImports ? 1 : kNewestOpset;
  model.producer = proto.producer_name();
  for (const auto &f : proto.functions())
    NPU_TRY(read_function(f, folder, model.functions.emplace_back()).within("function '" + f.name() + "'"));
  return read_graph(*proto.mutable_graph(), folder, model);
}

/// Bodies lie in bodies: more levels than protobuf allows by itself.
constexpr int kMaxMessageDepth = 400;

bool parse(google::protobuf::io::ZeroCopyInputStream &bytes, onnx::ModelProto &proto) {
  google::protobuf::io::CodedInputStream in(&bytes);
  in.SetRecursionLimit(kMaxMessageDepth);
  return proto.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

/// Refuses bytes that are no protobuf message, of which `begin` are the first.
Status no_message(std::string_view begin, const std::string &pointer = {}) {
  constexpr std::string_view kBmodel = "\xee\xaa\x55\xff";
  if (begin.starts_with(kBmodel))
    return refuse(
        Obstacle::Unsuitable,
        "it is a .bmodel, which is compiled already: bmrt_test and the runtime run it, tpu_model --info shows "
        "it; npuc compiles its ONNX file");
  return Status::error("not an ONNX file, or a truncated one: it cannot be parsed as a protobuf message" + pointer);
}

/// Opens a regular file of a size that an ONNX file may have.
Status open_file(const std::string &path, std::ifstream &file, uint64_t &size) {
  file.open(path, std::ios::binary | std::ios::ate);
  if (!file) return Status::error("cannot open " + path + ": " + std::strerror(errno));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Status::error("cannot read " + path + ": it is a folder, expected an ONNX file");
  const std::streamoff end = file.tellg();
  if (end < 0) return Status::error("cannot read " + path + ": its size is not known, expected a regular file");
  if (static_cast<uint64_t>(end) > kMaxFileBytes)
    return Status::error(path + ": it has " + std::to_string(end) + " bytes, an ONNX file has at most " +
                         std::to_string(kMaxFileBytes) + ": save its weights beside it (external data)");
  size = static_cast<uint64_t>(end);
  file.seekg(0);
  return {};
}

}  // namespace

Status read_onnx(const void *bytes, size_t size, RawModel &model) {
  if (size > kMaxFileBytes)
    return Status::error("the file has " + std::to_string(size) + " bytes, an ONNX file has at most " +
                         std::to_string(kMaxFileBytes));
  if (size == 0) return Status::error("not an ONNX file: it is empty");
  google::protobuf::SetLogHandler(nullptr);
  onnx::ModelProto proto;
  google::protobuf::io::ArrayInputStream stream(bytes, static_cast<int>(size));
  if (parse(stream, proto)) return read_model(proto, {}, model);
  return no_message({static_cast<const char *>(bytes), size});
}

Status read_bytes(const std::string &path, std::vector<char> &bytes) {
  std::ifstream file;
  uint64_t size;
  NPU_TRY(open_file(path, file, size));
  bytes.resize(size);
  return file.read(bytes.data(), static_cast<std::streamsize>(size)) ? Status() : Status::error("cannot read " + path);
}

namespace {

Status parse_file(const std::string &path, onnx::ModelProto &proto) {
  std::ifstream file;
  uint64_t size;
  NPU_TRY(open_file(path, file, size));
  if (size == 0) return Status::error(path + ": not an ONNX file: it is empty");
  google::protobuf::SetLogHandler(nullptr);
  google::protobuf::io::IstreamInputStream stream(&file);
  if (parse(stream, proto)) return {};
  if (file.bad()) return Status::error(path + ": cannot read it");
  char begin[4] = {};
  std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
  return no_message({begin, sizeof begin}, pointer_text(path)).within(path);
}

/// Finds the files of the tensors of a graph, and of those in its attributes.
class ExternalFiles {
 public:
  ExternalFiles(const Folder &folder, std::map<std::string, std::string> &out) : folder_(folder), out_(out) {}

  Status add(const onnx::GraphProto &g) {
    for (const onnx::TensorProto &t : g.initializer()) NPU_TRY(add(t));
    return add_nodes(g.node());
  }

  template <class Nodes>
  Status add_nodes(const Nodes &nodes) {
    for (const onnx::NodeProto &n : nodes)
      for (const onnx::AttributeProto &a : n.attribute()) {
        if (a.has_t()) NPU_TRY(add(a.t()));
        if (a.has_g()) NPU_TRY(add(a.g()));
      }
    return {};
  }

 private:
  Status add(const onnx::TensorProto &t) {
    if (t.data_location() != onnx::TensorProto::EXTERNAL) return {};
    External external;
    std::filesystem::path path;
    NPU_TRY(read_external(t, external));
    NPU_TRY(external_path(folder_, external.location, path));
    out_[external.location] = path.string();
    return {};
  }

  const Folder &folder_;
  std::map<std::string, std::string> &out_;
};

}  // namespace

Status read_onnx_file(const std::string &path, RawModel &model) {
  onnx::ModelProto proto;
  NPU_TRY(parse_file(path, proto));
  return read_model(proto, Folder(path), model).within(path);
}

Status external_files(const std::string &path, std::map<std::string, std::string> &out) {
  onnx::ModelProto proto;
  NPU_TRY(parse_file(path, proto));
  const Folder folder(path);
  ExternalFiles files(folder, out);
  NPU_TRY(files.add(proto.graph()));
  for (const onnx::FunctionProto &f : proto.functions()) NPU_TRY(files.add_nodes(f.node()));
  return {};
}

}  // namespace npu::graph
