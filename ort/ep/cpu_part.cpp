// SPDX-License-Identifier: MIT
#include "ort/ep/cpu_part.h"

namespace npu::ort {
namespace {

std::vector<const char *> names_of(const std::vector<Port> &ports) {
  std::vector<const char *> out;
  for (const Port &p : ports) out.push_back(p.name.c_str());
  return out;
}

}  // namespace

CpuPart::~CpuPart() {
  session_ = Ort::Session(nullptr);
  if (env_) Ort::GetApi().ReleaseEnv(env_);
}

/// The session is made with the first run. ONNX Runtime has one environment, that of the program, which this holds.
Status CpuPart::prepare(const Group &group) {
  const std::lock_guard lock(mutex_);
  if (session_) return {};
  if (!env_) NPU_TRY(take(Ort::GetApi().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "QNPU", &env_)));
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);
  OrtSession *session = nullptr;
  NPU_TRY(
      take(Ort::GetApi().CreateSessionFromArray(env_, group.network.data(), group.network.size(), options, &session)));
  session_ = Ort::Session(session);
  return {};
}

Status CpuPart::run(const Group &group, const std::vector<const OrtValue *> &inputs, std::vector<Ort::Value> &outputs) {
  NPU_TRY(prepare(group));
  const std::vector<const char *> in = names_of(group.inputs), out = names_of(group.outputs);
  std::vector<OrtValue *> results(out.size());
  NPU_TRY(take(Ort::GetApi().Run(session_, nullptr, in.data(), inputs.data(), in.size(), out.data(), out.size(),
                                 results.data())));
  for (OrtValue *value : results) outputs.emplace_back(value);
  return {};
}

}  // namespace npu::ort
