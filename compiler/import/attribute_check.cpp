// SPDX-License-Identifier: MIT
#include <algorithm>

#include "compiler/import/known_attributes.h"
#include "compiler/import/op_context.h"

namespace npu::graph {
namespace {

bool has_name(std::string_view names, std::string_view name) {
  return (" " + std::string(names) + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

bool is_note(std::string_view attribute) { return attribute.starts_with('_') || attribute == "doc_string"; }

std::string listed(std::string_view names) {
  std::string out(names);
  for (size_t at = 0; (at = out.find(' ', at)) != out.npos; at += 2) out.replace(at, 1, ", ");
  return out.empty() ? "none" : out;
}

/// In which operator sets else there is such an attribute.
std::string other_sets(std::span<const AttributeNames> versions, int64_t opset, std::string_view attribute) {
  for (const AttributeNames &v : versions)
    if (v.since > opset && has_name(v.names, attribute))
      return ", it comes with operator set " + std::to_string(v.since);
  for (size_t i = versions.size(); i-- > 1;)
    if (versions[i].since <= opset && has_name(versions[i - 1].names, attribute))
      return ", it ended before operator set " + std::to_string(versions[i].since);
  return {};
}

}  // namespace

std::string wrong_microsoft_attribute(std::string_view op, std::string_view attribute) {
  if (is_note(attribute)) return {};
  const MicrosoftEntry *found = find_microsoft(op);
  if (!found || has_name(found->attributes, attribute)) return {};
  return "is not one of " + std::string(kMicrosoft) + "." + std::string(op) +
         "; its attributes are: " + listed(found->attributes);
}

std::string wrong_attribute_name(std::string_view op, int64_t opset, std::string_view attribute) {
  if (is_note(attribute)) return {};
  const auto all = attribute_names();
  const auto [begin, end] =
      std::equal_range(all.begin(), all.end(), AttributeNames{op, 0, {}},
                       [](const AttributeNames &a, const AttributeNames &b) { return a.op < b.op; });
  if (begin == end) return {};
  const AttributeNames *now = &*begin;
  for (auto it = begin; it != end && it->since <= opset; ++it) now = &*it;
  if (has_name(now->names, attribute)) return {};
  return "is not one of " + std::string(op) + " in operator set " + std::to_string(opset) +
         other_sets({begin, end}, opset, attribute) + "; its attributes are: " + listed(now->names);
}

}  // namespace npu::graph
