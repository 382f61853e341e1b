// SPDX-License-Identifier: MIT
#include "ort/ep/stream.h"

#include <utility>

namespace npu::ort {
namespace {

Stream *self(OrtSyncStreamImpl *p) { return static_cast<Stream *>(p); }

/// Whoever waits for it waits for all that its stream has launched. Waiting twice does no harm.
struct Notification : OrtSyncNotificationImpl {
  explicit Notification(Stream *of) : OrtSyncNotificationImpl{}, stream(of) {
    ort_version_supported = kAbi;
    Release = [](OrtSyncNotificationImpl *p) noexcept { delete static_cast<Notification *>(p); };
    Activate = [](OrtSyncNotificationImpl *) noexcept -> OrtStatus * { return nullptr; };
    WaitOnDevice = [](OrtSyncNotificationImpl *p, OrtSyncStream *) noexcept { return wait(p); };
    WaitOnHost = [](OrtSyncNotificationImpl *p) noexcept { return wait(p); };
  }
  static OrtStatus *wait(OrtSyncNotificationImpl *p) {
    return guarded([p] { return static_cast<Notification *>(p)->stream->flush(); });
  }
  Stream *stream;
};

}  // namespace

Stream::Stream() : OrtSyncStreamImpl{} {
  ort_version_supported = kAbi;
  OrtSyncStreamImpl::Release = [](OrtSyncStreamImpl *p) noexcept { delete self(p); };
  OrtSyncStreamImpl::GetHandle = [](OrtSyncStreamImpl *p) noexcept -> void * { return self(p); };
  OrtSyncStreamImpl::CreateNotification = [](OrtSyncStreamImpl *p, OrtSyncNotificationImpl **out) noexcept {
    return guarded([&] { return *out = new Notification(self(p)), Status(); });
  };
  OrtSyncStreamImpl::Flush = [](OrtSyncStreamImpl *p) noexcept { return guarded([p] { return self(p)->flush(); }); };
  OrtSyncStreamImpl::OnSessionRunEnd = [](OrtSyncStreamImpl *) noexcept -> OrtStatus * { return nullptr; };
}

void Stream::note(const std::shared_ptr<Card> &card) {
  const std::lock_guard lock(mutex_);
  cards_.insert(card);
  threads_.insert(std::this_thread::get_id());
}

Status Stream::flush() {
  std::set<std::shared_ptr<Card>> cards;
  std::set<std::thread::id> threads;
  {
    const std::lock_guard lock(mutex_);
    cards.swap(cards_);
    threads.swap(threads_);
  }
  const bool own = threads.size() == 1 && *threads.begin() == std::this_thread::get_id();
  Status first;
  for (const auto &card : cards)
    if (const Status s = own ? card->sync_thread() : card->sync_all(); !s.ok() && first.ok()) first = s;
  return first;
}

}  // namespace npu::ort
