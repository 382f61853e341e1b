// SPDX-License-Identifier: MIT
#include "ort/ep/memory.h"

#include <npu_regs.h>

#include <algorithm>
#include <cstring>

#include "ort/ep/stream.h"

namespace npu::ort {
namespace {

bool is_card(const OrtMemoryDevice *device) {
  return ep_api().MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_NPU &&
         ep_api().MemoryDevice_GetVendorId(device) == NPU_PCI_VENDOR_ID;
}

bool is_host(const OrtMemoryDevice *device) {
  return ep_api().MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_CPU;
}

/// A tensor's bytes: on the card, or on the host where card is null.
struct Place {
  std::shared_ptr<Card> card;
  void *bytes = nullptr;
};

Status place_of(const OrtValue *value, Cards &cards, Place &out) {
  const OrtMemoryDevice *const device = ep_api().Value_GetMemoryDevice(value);
  const void *bytes = nullptr;
  NPU_TRY(take(Ort::GetApi().GetTensorData(value, &bytes)));
  out.bytes = const_cast<void *>(bytes);
  return is_card(device) ? cards.get(static_cast<int>(ep_api().MemoryDevice_GetDeviceId(device)), out.card) : Status();
}

}  // namespace

Status card_of(const OrtValue *value, std::optional<int> &out) {
  const OrtMemoryDevice *const device = ep_api().Value_GetMemoryDevice(value);
  out.reset();
  if (is_card(device))
    out = static_cast<int>(ep_api().MemoryDevice_GetDeviceId(device));
  else if (!is_host(device) && ep_api().MemoryDevice_GetMemoryType(device) != OrtDeviceMemoryType_HOST_ACCESSIBLE)
    return Status::error("it is in memory of a device that is no card of this provider");
  return {};
}

Status Cards::get(int index, std::shared_ptr<Card> &out) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Card> &card = open_[index];
  if (!card) NPU_TRY(Card::open(index, card));
  out = card;
  return {};
}

Ort::MemoryInfo memory_info(int card) {
  OrtMemoryInfo *info = nullptr;
  Ort::ThrowOnError(Ort::GetApi().CreateMemoryInfo_V2("QNPU", OrtMemoryInfoDeviceType_NPU, NPU_PCI_VENDOR_ID, card,
                                                      OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &info));
  return Ort::MemoryInfo(info);
}

Allocator::Allocator(std::shared_ptr<Card> card, const OrtMemoryInfo *info)
    : OrtAllocator{}, card_(std::move(card)), info_(info) {
  version = kAbi;
  OrtAllocator::Alloc = [](OrtAllocator *p, size_t n) { return static_cast<Allocator *>(p)->allocate(n); };
  OrtAllocator::Reserve = OrtAllocator::Alloc;
  OrtAllocator::Free = [](OrtAllocator *p, void *memory) { static_cast<Allocator *>(p)->release(memory); };
  OrtAllocator::Info = [](const OrtAllocator *p) { return static_cast<const Allocator *>(p)->info_; };
  OrtAllocator::GetStats = [](const OrtAllocator *p, OrtKeyValuePairs **out) noexcept {
    return static_cast<const Allocator *>(p)->stats(out);
  };
}

void *Allocator::allocate(size_t bytes) noexcept {
  uint64_t address = 0;
  try {
    if (bytes == 0 || !card_->allocate(bytes, address).ok()) return nullptr;
    const std::lock_guard lock(mutex_);
    sizes_[pointer_of(address)] = bytes;
    in_use_ += bytes;
    most_ = std::max(most_, in_use_);
    ++count_;
  } catch (const std::exception &) {
    if (address) card_->release(address);
    return nullptr;
  }
  return pointer_of(address);
}

void Allocator::release(void *p) noexcept {
  if (!p) return;
  {
    const std::lock_guard lock(mutex_);
    const auto it = sizes_.find(p);
    if (it == sizes_.end()) return;
    in_use_ -= it->second;
    sizes_.erase(it);
  }
  card_->release(address_of(p));
}

OrtStatus *Allocator::stats(OrtKeyValuePairs **out) const noexcept {
  return guarded([&] {
    const std::lock_guard lock(mutex_);
    Ort::KeyValuePairs pairs;
    pairs.Add("InUse", std::to_string(in_use_).c_str());
    pairs.Add("MaxInUse", std::to_string(most_).c_str());
    pairs.Add("NumAllocs", std::to_string(count_).c_str());
    *out = pairs.release();
    return Status();
  });
}

DataTransfer::DataTransfer(Cards &cards) : OrtDataTransferImpl{}, cards_(cards) {
  ort_version_supported = kAbi;
  OrtDataTransferImpl::Release = [](OrtDataTransferImpl *p) noexcept { delete static_cast<DataTransfer *>(p); };
  OrtDataTransferImpl::CanCopy = [](const OrtDataTransferImpl *, const OrtMemoryDevice *from,
                                    const OrtMemoryDevice *to) noexcept {
    return (is_card(from) && (is_card(to) || is_host(to))) || (is_host(from) && is_card(to));
  };
  OrtDataTransferImpl::CopyTensors = [](OrtDataTransferImpl *p, const OrtValue **from, OrtValue **to,
                                        OrtSyncStream **streams, size_t count) noexcept {
    return guarded([&]() -> Status {
      for (size_t i = 0; i < count; ++i)
        NPU_TRY(static_cast<DataTransfer *>(p)->copy(from[i], to[i], streams ? streams[i] : nullptr));
      return {};
    });
  };
}

/// What is copied from a card is told only where the launches that made it have succeeded.
Status DataTransfer::copy(const OrtValue *from, OrtValue *to, OrtSyncStream *stream) {
  Place source, target;
  size_t bytes = 0;
  NPU_TRY(place_of(from, cards_, source));
  NPU_TRY(place_of(to, cards_, target));
  NPU_TRY(take(Ort::GetApi().GetTensorSizeInBytes(from, &bytes)));
  if (bytes == 0) return {};
  if (source.card) {
    const uint64_t address = address_of(source.bytes);
    NPU_TRY(sync_writers(source.card->index(), {address, address + bytes}));
    if (stream)
      if (const auto *impl = ep_api().SyncStream_GetImpl(stream))
        NPU_TRY(const_cast<Stream *>(static_cast<const Stream *>(impl))->flush());
  }
  if (source.card && source.card == target.card)
    return source.card->copy(address_of(target.bytes), address_of(source.bytes), bytes);
  if (source.card && !target.card) return source.card->read(target.bytes, address_of(source.bytes), bytes);
  if (target.card && !source.card) return target.card->write(address_of(target.bytes), source.bytes, bytes);
  if (!source.card) return std::memcpy(target.bytes, source.bytes, bytes), Status();
  std::vector<uint8_t> between(bytes);
  NPU_TRY(source.card->read(between.data(), address_of(source.bytes), bytes));
  return target.card->write(address_of(target.bytes), between.data(), bytes);
}

}  // namespace npu::ort
