// SPDX-License-Identifier: MIT
// The execution provider of one session.
#ifndef NPU_ORT_PROVIDER_H
#define NPU_ORT_PROVIDER_H

#include <memory>

#include "ort/ep/capability.h"

namespace npu::ort {

class Provider : public Ep25 {
 public:
  /// `interface`: the latest version of the plug-in interface that this ONNX Runtime has.
  Provider(std::shared_ptr<Card> card, Options options, const OrtLogger *logger, uint32_t interface);

 private:
  using Nodes = std::vector<const OrtNode *>;

  Status get_capability(Ort::ConstGraph graph, OrtEpGraphSupportInfo *support);
  Status compile(Ort::ConstGraph graph, Ort::ConstNode fused, OrtNodeComputeInfo *&info, OrtNode **context);
  Status compile_nodes(Ort::ConstGraph graph, Group &out);
  void log(OrtLoggingLevel level, const std::string &text) const;

  const std::shared_ptr<Card> card_;
  const std::shared_ptr<const Options> options_;
  const OrtLogger *logger_;
  const uint32_t interface_;
  const std::shared_ptr<Profile> profile_ = std::make_shared<Profile>();
  std::map<std::string, std::shared_ptr<Group>> found_;  ///< by get_capability(), by the results of their nodes
  bool has_parts_ = false;                               ///< a graph of the model has parts that were compiled
  std::string compatibility_;
  size_t contexts_ = 0;  ///< files beside a model of compiled networks
};

/// What a compiled model needs of a card.
std::string compatibility_text(const Card &card, const Options &options);

}  // namespace npu::ort

#endif  // NPU_ORT_PROVIDER_H
