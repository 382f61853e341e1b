// SPDX-License-Identifier: MIT
// Streams of ONNX Runtime: what a run has launched and not waited for.
//
// Launches of a thread run in their order and copies wait for launches that use their memory, so a stream has no queue
// of its own. It knows which cards it has launched on, and from which thread, to wait for these and to tell whether
// they failed.
#ifndef NPU_ORT_STREAM_H
#define NPU_ORT_STREAM_H

#include <mutex>
#include <set>
#include <thread>

#include "ort/ep/card.h"
#include "ort/ep/ort_api.h"

namespace npu::ort {

class Stream : public OrtSyncStreamImpl {
 public:
  Stream();
  /// A launch of the calling thread belongs to it.
  void note(const std::shared_ptr<Card> &card);
  /// Waits for its launches; the first error.
  Status flush();

 private:
  std::mutex mutex_;
  std::set<std::shared_ptr<Card>> cards_;
  std::set<std::thread::id> threads_;
};

}  // namespace npu::ort

#endif  // NPU_ORT_STREAM_H
