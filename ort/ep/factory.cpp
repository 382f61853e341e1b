// SPDX-License-Identifier: MIT
#include "ort/ep/factory.h"

#include <npu_regs.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ort/ep/cache.h"
#include "ort/ep/compiler.h"
#include "ort/ep/newer_interface.h"
#include "ort/ep/provider.h"
#include "ort/ep/stream.h"

namespace npu::ort {
namespace {

constexpr const char *kCardKey = "qnpu_device";  // in the metadata of a device: the number of its card

Factory *self(OrtEpFactory *p) { return static_cast<Factory *>(p); }

std::vector<std::pair<std::string, std::string>> entries_of(const OrtSessionOptions *options) {
  OrtKeyValuePairs *pairs = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &pairs));
  const Ort::KeyValuePairs owned(pairs);
  const char *const *keys = nullptr, *const *values = nullptr;
  size_t count = 0;
  Ort::GetApi().GetKeyValuePairs(pairs, &keys, &values, &count);
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(keys[i], values[i]);
  return out;
}

/// What the session asks for, checked by whoever knows it. The memory that ONNX Runtime gives to the session is that of
/// the OrtEpDevice, so the card is.
Status session_options(const OrtSessionOptions *from, const OrtKeyValuePairs *const *metadata, size_t count,
                       Options &out) {
  if (count > 1) return Status::error("a session runs on one NPU, " + std::to_string(count) + " are given");
  NPU_TRY(read_options(entries_of(from), out));
  const char *const text = count ? Ort::GetApi().GetKeyValue(metadata[0], kCardKey) : nullptr;
  const int card = text ? std::atoi(text) : 0;
  if (out.device.value_or(card) != card)
    return Status::error("option device=" + std::to_string(*out.device) +
                         ": the session was given the OrtEpDevice of NPU " + std::to_string(card) +
                         "; give it that of the other card, whose metadata has " + kCardKey + "=" +
                         std::to_string(*out.device));
  out.device = card;
  return check_options(out.compiler);
}

}  // namespace

Factory::Factory(uint32_t interface, const OrtLogger *logger) : OrtEpFactory{}, interface_(interface), logger_(logger) {
  ort_version_supported = kAbi;
  OrtEpFactory::GetName = [](const OrtEpFactory *) noexcept { return kProviderName; };
  OrtEpFactory::GetVendor = [](const OrtEpFactory *) noexcept { return kVendor; };
  OrtEpFactory::GetVendorId = [](const OrtEpFactory *) noexcept -> uint32_t { return NPU_PCI_VENDOR_ID; };
  OrtEpFactory::GetVersion = [](const OrtEpFactory *) noexcept { return NPU_VERSION; };
  OrtEpFactory::GetSupportedDevices = [](OrtEpFactory *p, const OrtHardwareDevice *const *devices, size_t count,
                                         OrtEpDevice **out, size_t most, size_t *found) noexcept {
    return guarded([&] { return self(p)->find_devices(devices, count, out, most, found); });
  };
  OrtEpFactory::CreateEp = [](OrtEpFactory *p, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *pairs,
                              size_t count, const OrtSessionOptions *options, const OrtLogger *logger,
                              OrtEp **ep) noexcept {
    return guarded([&] { return self(p)->create(pairs, count, options, logger, *ep); });
  };
  OrtEpFactory::ReleaseEp = [](OrtEpFactory *, OrtEp *ep) noexcept { delete static_cast<Provider *>(ep); };
  OrtEpFactory::ValidateCompiledModelCompatibilityInfo = [](OrtEpFactory *p, const OrtHardwareDevice *const *, size_t,
                                                            const char *text,
                                                            OrtCompiledModelCompatibility *out) noexcept {
    return guarded([&] { return self(p)->validate(text, *out); });
  };
  OrtEpFactory::CreateAllocator = [](OrtEpFactory *p, const OrtMemoryInfo *info, const OrtKeyValuePairs *,
                                     OrtAllocator **out) noexcept {
    return guarded([&] { return self(p)->create_allocator(info, *out); });
  };
  OrtEpFactory::ReleaseAllocator = [](OrtEpFactory *, OrtAllocator *allocator) noexcept {
    delete static_cast<Allocator *>(allocator);
  };
  OrtEpFactory::CreateDataTransfer = [](OrtEpFactory *p, OrtDataTransferImpl **out) noexcept {
    return guarded([&] { return *out = new DataTransfer(self(p)->cards_), Status(); });
  };
  OrtEpFactory::IsStreamAware = [](const OrtEpFactory *) noexcept { return true; };
  OrtEpFactory::CreateSyncStreamForDevice = [](OrtEpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *,
                                               OrtSyncStreamImpl **out) noexcept {
    return guarded([&] { return *out = new Stream, Status(); });
  };
}

/// ONNX Runtime does not know NPUs of this kind as hardware: they are devices of its processor, one a card.
Status Factory::find_devices(const OrtHardwareDevice *const *devices, size_t count, OrtEpDevice **out, size_t most,
                             size_t *found) {
  *found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (Ort::GetApi().HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
    int cards = 0;
    const Status counted = count_cards(cards);
    if (counted.code() == -ENODEV)
      // A machine without an NPU may register the library all the same.
      return take(Ort::GetApi().Logger_LogMessage(logger_, ORT_LOGGING_LEVEL_WARNING, counted.message().c_str(),
                                                  ORT_TSTR("factory.cpp"), __LINE__, "QNPU"));
    NPU_TRY(counted);
    for (int card = 0; card < cards && *found < most; ++card) NPU_TRY(add_device(card, devices[i], out[(*found)++]));
    return {};
  }
  return {};
}

Status Factory::add_device(int card, const OrtHardwareDevice *host, OrtEpDevice *&out) {
  Ort::KeyValuePairs metadata;
  metadata.Add(kCardKey, std::to_string(card).c_str());
  NPU_TRY(take(ep_api().CreateEpDevice(this, host, metadata, nullptr, &out)));
  return take(ep_api().EpDevice_AddAllocatorInfo(out, memory_.emplace_back(memory_info(card))));
}

Status Factory::create(const OrtKeyValuePairs *const *metadata, size_t count, const OrtSessionOptions *options,
                       const OrtLogger *logger, OrtEp *&out) {
  Options read;
  std::shared_ptr<Card> card;
  NPU_TRY(session_options(options, metadata, count, read));
  NPU_TRY(Cache(read.cache).prepare());
  NPU_TRY(Card::open(*read.device, card));
  // Compiled for the card that it runs on, unless the session wants it for another one.
  read.compiler.emplace("lmem", std::to_string(card->lmem_bytes()));
  if (const auto cores = read.compiler.find("cores");
      cores != read.compiler.end() && std::atoi(cores->second.c_str()) > card->cores())
    return Status::error("option cores=" + cores->second + ": NPU " + std::to_string(*read.device) + " has " +
                         std::to_string(card->cores()));
  out = new Provider(std::move(card), std::move(read), logger, interface_);
  return {};
}

Status Factory::create_allocator(const OrtMemoryInfo *info, OrtAllocator *&out) {
  int id = 0;
  std::shared_ptr<Card> card;
  NPU_TRY(take(Ort::GetApi().MemoryInfoGetId(info, &id)));
  NPU_TRY(cards_.get(id, card));
  out = new Allocator(std::move(card), info);
  return {};
}

/// The text is compatibility_text()'s.
Status Factory::validate(const char *text, OrtCompiledModelCompatibility &out) {
  int cores = 0;
  char lmem[32] = "";
  std::shared_ptr<Card> card;
  out = OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  if (std::sscanf(text, "qnpu1;cores=%d;lmem=%31[0-9]", &cores, lmem) != 2) return {};
  NPU_TRY(cards_.get(0, card));
  if (cores <= card->cores() && std::strtoull(lmem, nullptr, 10) <= card->lmem_bytes())
    out = OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL;
  return {};
}

/// Version 1.N of ONNX Runtime has interface N. Asking it for one that it does not have makes it print an error.
static uint32_t interface_of(const OrtApiBase &base) {
  unsigned version = 0;
  return std::sscanf(base.GetVersionString(), "1.%u", &version) == 1 ? std::max(version, kAbi) : kAbi;
}

}  // namespace npu::ort

#define NPU_ORT_EXPORT extern "C" __attribute__((visibility("default")))

NPU_ORT_EXPORT OrtStatus *CreateEpFactories(const char *, const OrtApiBase *base, const OrtLogger *logger,
                                            OrtEpFactory **factories, size_t most, size_t *count) {
  const OrtApi *const api = base->GetApi(npu::ort::kAbi);
  *count = 0;
  // Without an interface there is none to make an error with: no factory is one for whoever registers the library.
  if (!api) return nullptr;
  Ort::InitApi(api);
  const uint32_t interface = npu::ort::interface_of(*base);
  if (interface >= 24) npu::ort::api24 = static_cast<const npu::ort::Api24 *>(base->GetApi(24));
  return npu::ort::guarded([&]() -> npu::Status {
    if (most < 1) return npu::Status::error("there is no room for a factory");
    factories[0] = new npu::ort::Factory(interface, logger);
    *count = 1;
    return {};
  });
}

NPU_ORT_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  delete static_cast<npu::ort::Factory *>(factory);
  return nullptr;
}

// For libqnpu_ort.so. The text is the calling thread's.
NPU_ORT_EXPORT const char *qnpu_ep_no_card() {
  static thread_local std::string text;
  int cards = 0;
  text = npu::ort::count_cards(cards).message();
  return text.c_str();
}
