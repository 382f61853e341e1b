// SPDX-License-Identifier: MIT
#include "ort/ep/provider.h"

#include <algorithm>
#include <utility>

#include "ort/ep/body.h"
#include "ort/ep/context.h"

namespace npu::ort {
namespace {

Provider *self(OrtEp *p) { return static_cast<Provider *>(p); }

/// The results of nodes, whatever their order: what a part is told by.
std::string key_of(const GraphView &graph, const std::vector<size_t> &nodes) {
  std::vector<std::string> names;
  for (size_t i : nodes) names.insert(names.end(), graph.nodes[i].outputs.begin(), graph.nodes[i].outputs.end());
  std::sort(names.begin(), names.end());
  std::string key;
  for (const std::string &name : names) key += name + '\n';
  return key;
}

bool same_names(const std::vector<Port> &ports, std::vector<std::string> names) {
  std::vector<std::string> have;
  for (const Port &p : ports) have.push_back(p.name);
  std::sort(have.begin(), have.end());
  std::sort(names.begin(), names.end());
  return have == names;
}

Status find_places(const std::vector<Ort::ConstValueInfo> &infos, std::vector<Port> &ports) {
  for (Port &port : ports) {
    const auto same = [&](const Ort::ConstValueInfo &v) { return v && v.GetName() == port.name; };
    const auto at = std::find_if(infos.begin(), infos.end(), same);
    if (at == infos.end()) return Status::error("the node of '" + port.name + "' does not have it");
    port.place = static_cast<uint32_t>(at - infos.begin());
  }
  return {};
}

/// What a failed Compile leaves behind: nothing that the caller has to know of. ONNX Runtime's documentation does not
/// say whether it takes over the parts before the one that failed.
void release_compiled(OrtNodeComputeInfo **infos, OrtNode **contexts, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    delete static_cast<Kernel *>(std::exchange(infos[i], nullptr));
    if (contexts) Ort::GetApi().ReleaseNode(std::exchange(contexts[i], nullptr));
  }
}

ONNXTensorElementDataType type_of(const Ort::ConstValueInfo &value) {
  const Ort::ConstTypeInfo type = value.TypeInfo();
  return type && type.GetONNXType() == ONNX_TYPE_TENSOR ? type.GetTensorTypeAndShapeInfo().GetElementType()
                                                        : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

/// The node that stands for an EPContext node may have its inputs and outputs in another order.
Status move_places(const std::vector<Ort::ConstValueInfo> &from, const std::vector<Ort::ConstValueInfo> &to,
                   std::vector<Port> &ports) {
  for (Port &port : ports) {
    if (port.place >= from.size() || !from[port.place])
      return Status::error("the node has no tensor " + std::to_string(port.place) + ", which its network has");
    const std::string name = from[port.place].GetName();
    const auto same = [&](const Ort::ConstValueInfo &v) { return v && v.GetName() == name; };
    const auto at = std::find_if(to.begin(), to.end(), same);
    if (at == to.end()) return Status::error("'" + name + "' is lost");
    // The model is anyone's: ONNX Runtime makes memory for the type that it declares.
    if (const ONNXTensorElementDataType type = type_of(*at); type != port.type)
      return Status::error("the model declares '" + name + "' with elements of ONNX type " + std::to_string(type) +
                           ", and its compiled network has " + std::to_string(port.type));
    port.place = static_cast<uint32_t>(at - to.begin());
  }
  return {};
}

}  // namespace

std::string compatibility_text(const Card &card, const Options &options) {
  const auto cores = options.compiler.find("cores"), lmem = options.compiler.find("lmem");
  return "qnpu1;cores=" + (cores == options.compiler.end() ? "1" : cores->second) +
         ";lmem=" + (lmem == options.compiler.end() ? std::to_string(card.lmem_bytes()) : lmem->second);
}

Provider::Provider(std::shared_ptr<Card> card, Options options, const OrtLogger *logger, uint32_t interface)
    : Ep25{},
      card_(std::move(card)),
      options_(std::make_shared<const Options>(std::move(options))),
      logger_(logger),
      interface_(interface),
      compatibility_(compatibility_text(*card_, *options_)) {
  ort_version_supported = std::min(interface, kAbiProfiler);
  OrtEp::GetName = [](const OrtEp *) noexcept { return kProviderName; };
  OrtEp::GetCapability = [](OrtEp *p, const OrtGraph *graph, OrtEpGraphSupportInfo *support) noexcept {
    return guarded([&] { return self(p)->get_capability(Ort::ConstGraph(graph), support); });
  };
  OrtEp::Compile = [](OrtEp *p, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **contexts) noexcept {
    const auto each = [&]() -> Status {
      for (size_t i = 0; i < count; ++i)
        NPU_TRY(self(p)->compile(Ort::ConstGraph(graphs[i]), Ort::ConstNode(fused[i]), infos[i],
                                 contexts ? &contexts[i] : nullptr));
      return {};
    };
    std::fill_n(infos, count, nullptr);
    if (contexts) std::fill_n(contexts, count, nullptr);
    OrtStatus *const failed = guarded(each);
    if (failed) release_compiled(infos, contexts, count);
    return failed;
  };
  OrtEp::ReleaseNodeComputeInfos = [](OrtEp *, OrtNodeComputeInfo **infos, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) delete static_cast<Kernel *>(infos[i]);
  };
  OrtEp::GetCompiledModelCompatibilityInfo = [](OrtEp *p, const OrtGraph *) noexcept {
    return self(p)->compatibility_.c_str();
  };
  Ep25::CreateProfiler = [](OrtEp *p, OrtEpProfilerImpl **out) noexcept {
    return guarded([&] { return *out = make_profiler(self(p)->profile_), Status(); });
  };
}

void Provider::log(OrtLoggingLevel level, const std::string &text) const {
  (void)take(Ort::GetApi().Logger_LogMessage(logger_, level, text.c_str(), ORT_TSTR("provider.cpp"), __LINE__, "QNPU"));
}

Status Provider::get_capability(Ort::ConstGraph graph, OrtEpGraphSupportInfo *support) {
  // The nodes of a body are taken with the node that has it, or not at all.
  if (is_body(graph, interface_)) {
    log(ORT_LOGGING_LEVEL_INFO, "not on the NPU: graph '" + std::string(graph.GetName()) +
                                    "' by itself: it is taken for the body of an If, Loop or Scan");
    return {};
  }
  if (has_parts_ && interface_ < kAbiUniqueNames) {
    log(ORT_LOGGING_LEVEL_INFO, "not on the NPU: graph '" + std::string(graph.GetName()) +
                                    "': ONNX Runtime before 1.26 takes parts of one graph of a model only");
    return {};
  }
  GraphView view = read_graph(graph);
  bool contexts = false;
  for (const GraphNode &n : view.nodes) {
    if (!is_own_context(n.node)) continue;
    contexts = true;
    const OrtNode *const node = n.node;
    NPU_TRY(take(ep_api().EpGraphSupportInfo_AddNodesToFuse(support, &node, 1, nullptr)));
  }
  if (contexts || view.nodes.empty()) return {};
  Capability capability;
  const Status found = find_capability(view, *options_, interface_ >= kAbiCaptures, capability);
  if (!found.ok()) {
    log(ORT_LOGGING_LEVEL_WARNING, "the NPU takes nothing of graph '" + view.name + "': " + found.message());
    return {};
  }
  for (const std::string &reason : capability.refused) log(ORT_LOGGING_LEVEL_INFO, "not on the NPU: " + reason);
  OrtNodeFusionOptions fusion{};
  fusion.ort_version_supported = kAbi;
  fusion.drop_constant_initializers = true;
  for (const Taken &taken : capability.taken) {
    Nodes nodes;
    for (size_t i : taken.part.nodes) nodes.push_back(view.nodes[i].node);
    found_[key_of(view, taken.part.nodes)] = taken.group;
    NPU_TRY(take(ep_api().EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion)));
  }
  return {};
}

Status Provider::compile_nodes(Ort::ConstGraph graph, Group &out) {
  const GraphView view = read_graph(graph);
  std::vector<size_t> all(view.nodes.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const Part part = make_part(view, all);
  const auto found = found_.find(key_of(view, all));
  if (found != found_.end() && same_names(found->second->inputs, part.inputs) &&
      same_names(found->second->outputs, part.outputs)) {
    out = *found->second;
    return {};
  }
  bool on_chip;
  return make_group(view, part, *options_, out, on_chip);
}

Status Provider::compile(Ort::ConstGraph graph, Ort::ConstNode fused, OrtNodeComputeInfo *&info, OrtNode **context) {
  has_parts_ = true;
  auto group = std::make_shared<Group>();
  const std::vector<Ort::ConstNode> nodes = graph.GetNodes();
  const bool loaded = nodes.size() == 1 && is_own_context(nodes[0]);
  if (loaded) {
    NPU_TRY(read_context(nodes[0], graph.GetModelPath(), *options_, *group));
    const std::string who = "EPContext '" + nodes[0].GetName() + "'";
    NPU_TRY(move_places(nodes[0].GetInputs(), fused.GetInputs(), group->inputs).within(who));
    NPU_TRY(move_places(nodes[0].GetOutputs(), fused.GetOutputs(), group->outputs).within(who));
  } else {
    NPU_TRY(compile_nodes(graph, *group));
    NPU_TRY(find_places(fused.GetInputs(), group->inputs));
    NPU_TRY(find_places(fused.GetOutputs(), group->outputs));
  }
  auto kernel = std::make_unique<Kernel>(card_, group, options_, profile_, logger_);
  NPU_TRY(kernel->prepare());
  if (options_->context && context && !loaded)
    NPU_TRY(write_context(fused, graph.GetModelPath(), *options_, *group, contexts_++, context));
  info = kernel.release();
  return {};
}

}  // namespace npu::ort
