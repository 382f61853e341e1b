// SPDX-License-Identifier: MIT
#include "runtime/bmodel/container.h"

#include <fcntl.h>
#include <sha256.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/bmodel/text.h"

namespace npu::bmodel {

namespace {

/// Calls visit(binary, what) for every Binary in the model.
template <class Visit>
void for_each_binary(const fb::Model &model, Visit visit) {
  auto commands = [&](const flatbuffers::Vector<flatbuffers::Offset<fb::CmdGroup>> *groups) {
    for (size_t i = 0; i < count(groups); ++i) {
      visit(groups->Get(i)->binary_bdc(), "TIU commands");
      visit(groups->Get(i)->binary_gdma(), "GDMA commands");
    }
  };
  auto plain = [&](const flatbuffers::Vector<const fb::Binary *> *list, const char *what) {
    for (size_t i = 0; i < count(list); ++i) visit(list->Get(i), what);
  };
  if (model.kernel_module()) visit(model.kernel_module()->binary(), "kernel module");
  if (model.cpuop_module()) visit(model.cpuop_module()->binary(), "CPU operator module");
  for (size_t n = 0; n < count(model.net()); ++n) {
    const fb::Net &net = *model.net()->Get(n);
    for (size_t s = 0; s < count(net.parameter()); ++s) {
      const fb::NetParameter &p = *net.parameter()->Get(s);
      commands(p.cmd_group());
      visit(p.net_profile(), "profile");
      visit(p.binary_ir(), "IR");
      visit(p.net_stat(), "statistics");
      visit(p.tensor_loc(), "tensor locations");
      if (p.coeff_mem()) visit(p.coeff_mem()->binary_coeff(), "coefficients");
      for (size_t i = 0; i < count(p.sub_net()); ++i) {
        const fb::SubNet &sub = *p.sub_net()->Get(i);
        commands(sub.cmd_group());
        for (size_t k = 0; k < count(sub.cpu_param()); ++k) visit(sub.cpu_param()->Get(k)->binary_param(), "CPU layer");
        for (size_t k = 0; k < count(sub.core_commands()); ++k) {
          const fb::CoreCommands &core = *sub.core_commands()->Get(k);
          commands(core.gdma_tiu_commands());
          plain(core.sdma_commands(), "SDMA commands");
          plain(core.hau_commands(), "HAU commands");
          plain(core.cdma_commands(), "CDMA commands");
        }
      }
    }
  }
}

}  // namespace

Container::~Container() {
  if (!file_.mapping.empty()) munmap(const_cast<uint8_t *>(file_.mapping.data()), file_.mapping.size());
  if (file_.fd >= 0) ::close(file_.fd);
}

Status Container::open(const std::string &path, std::unique_ptr<Container> &out) {
  std::unique_ptr<Container> c(new Container);
  c->name_ = path;
  // A pipe is refused, too, and not waited for.
  const int fd = c->file_.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return Status::error(path + ": cannot open: " + std::strerror(errno));
  }
  struct stat st {};
  const bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  if (!regular || st.st_size < static_cast<off_t>(sizeof(FileHeader))) {
    return Status::error(path +
                         (regular ? ": not a bmodel: " + number(st.st_size) + " bytes, shorter than the 64-byte header"
                                  : ": not a regular file"));
  }
  void *p = mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) {
    return Status::error(path + ": cannot map: " + std::strerror(errno));
  }
  c->file_.mapping = {static_cast<const uint8_t *>(p), static_cast<size_t>(st.st_size)};
  NPU_TRY(c->parse(c->file_.mapping).within(path));
  out = std::move(c);
  return {};
}

Status Container::from_memory(const void *data, size_t size, std::unique_ptr<Container> &out) {
  std::unique_ptr<Container> c(new Container);
  c->name_ = "(memory)";
  auto bytes = std::span(static_cast<const uint8_t *>(data), data ? size : 0);
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t)) {
    c->aligned_.assign(bytes.begin(), bytes.end());  // flatbuffers wants its scalars aligned
    bytes = c->aligned_;
  }
  NPU_TRY(c->parse(bytes).within(c->name_));
  out = std::move(c);
  return {};
}

Status Container::from_head(const void *data, size_t size, std::unique_ptr<Container> &out) {
  std::unique_ptr<Container> c(new Container);
  c->name_ = "(memory)";
  c->head_only_ = true;
  FileHeader h{};
  if (data && size >= sizeof h) std::memcpy(&h, data, sizeof h);
  const auto *first = static_cast<const uint8_t *>(data);
  const size_t head = std::min<size_t>(size, sizeof h + size_t{h.flatbuffers_size});
  if (data) c->aligned_.assign(first, first + head);
  c->model_bytes_ = size;
  NPU_TRY(c->parse(c->aligned_).within(c->name_));
  out = std::move(c);
  return {};
}

Status Container::parse(std::span<const uint8_t> bytes) {
  constexpr uint8_t kOnnxField = 0x08;  // an ONNX file begins with its ir_version
  const bool onnx = name_.ends_with(".onnx") || (!bytes.empty() && bytes[0] == kOnnxField);
  const std::string step = onnx ? "; it looks like an ONNX file: compile it first, npuc FILE.onnx -o FILE.bmodel" : "";
  FileHeader h;
  if (bytes.size() < sizeof h)
    return Status::error("not a bmodel: " + number(bytes.size()) + " bytes, shorter than the 64-byte header" + step);
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != kMagic)
    return Status::error("not a bmodel: the first four bytes are not the magic number 0xff55aaee" + step);
  if (h.header_size != sizeof h) return Status::error("header size is " + number(h.header_size) + ", expected 64");
  const uint64_t need = sizeof h + uint64_t{h.flatbuffers_size} + h.binary_size;
  const uint64_t have = head_only_ ? model_bytes_ : bytes.size();
  if (need > have)
    return Status::error("truncated: the header announces " + number(need) + " bytes, there are " + number(have));
  const uint8_t *flat = bytes.data() + sizeof h;
  flatbuffers::Verifier verifier(flat, h.flatbuffers_size, 64, 1000000);
  if (h.flatbuffers_size < 8 || !fb::VerifyModelBuffer(verifier))
    return Status::error("corrupt: the flatbuffer part does not verify");
  model_ = fb::GetModel(flat);
  blob_bytes_ = h.binary_size;
  if (!head_only_) blob_ = bytes.subspan(sizeof h + h.flatbuffers_size, h.binary_size);
  return check_binaries();
}

Status Container::check_binaries() const {
  std::string bad;
  for_each_binary(*model_, [&](const fb::Binary *b, const char *what) {
    if (!b || !bad.empty()) return;
    // The verifier does not check the alignment of structs in vectors.
    if (reinterpret_cast<uintptr_t>(b) % alignof(fb::Binary) != 0)
      bad = std::string("corrupt: the entry of ") + what + " is misaligned";
    else if (b->start() > blob_bytes_ || b->size() > blob_bytes_ - b->start())
      bad = std::string("corrupt: ") + what + " at " + number(b->start()) + " with " + number(b->size()) +
            " bytes lie beyond the " + number(blob_bytes_) + " bytes of binary data";
  });
  if (!bad.empty()) return Status::error(bad);
  if (count(model_->net()) == 0) return Status::error("no network inside");
  for (const fb::Net *net : *model_->net())
    if (!net->name() || net->name()->size() == 0) return Status::error("corrupt: a network has no name");
  return {};
}

std::span<const uint8_t> Container::binary(const fb::Binary *b) const {
  if (!b || head_only_) return {};
  return blob_.subspan(b->start(), b->size());
}

Status Container::verify_hashes() const {
  for (const fb::Net *net : *model_->net())
    for (size_t s = 0; s < count(net->parameter()); ++s) {
      const fb::CoeffMem *coeff = net->parameter()->Get(s)->coeff_mem();
      if (!coeff) continue;
      const auto data = binary(coeff->binary_coeff());
      const std::string where = "network '" + net->name()->str() + "' stage " + number(s);
      if (data.empty()) continue;
      if (count(coeff->check_code()) != SHA256_DIGEST_LENGTH)
        return Status::error(name_ + ": cannot be verified: the file has no SHA-256 of the coefficients of " + where);
      uint8_t digest[SHA256_DIGEST_LENGTH];
      SHA256_CTX ctx;
      SHA256Init(&ctx);
      SHA256Update(&ctx, data.data(), data.size());
      SHA256Final(digest, &ctx);
      if (std::memcmp(digest, coeff->check_code()->data(), sizeof digest) != 0)
        return Status::error(name_ + ": corrupt: the coefficients of " + where +
                             " do not have the SHA-256 that the file states");
    }
  return {};
}

Status assemble(std::span<const uint8_t> flat, std::span<const uint8_t> blob, std::vector<uint8_t> &out) {
  std::span<uint8_t> room;
  NPU_TRY(assemble(flat, blob.size(), out, room));
  std::copy(blob.begin(), blob.end(), room.begin());
  return {};
}

Status assemble(std::span<const uint8_t> flat, uint64_t blob_bytes, std::vector<uint8_t> &out,
                std::span<uint8_t> &blob) {
  const uint64_t padded = (blob_bytes + 7) / 8 * 8;
  if (padded > 0xffffffffu) return Status::error("the model has more than 4 GiB of binary data, the container's limit");
  FileHeader h{};
  h.magic = kMagic;
  h.header_size = sizeof h;
  h.flatbuffers_size = static_cast<uint32_t>(flat.size());
  h.binary_size = static_cast<uint32_t>(padded);
  const auto *head = reinterpret_cast<const uint8_t *>(&h);
  out.clear();
  out.resize(sizeof h + flat.size() + padded);
  std::copy(head, head + sizeof h, out.begin());
  std::copy(flat.begin(), flat.end(), out.begin() + sizeof h);
  blob = std::span(out).subspan(sizeof h + flat.size(), blob_bytes);
  return {};
}

uint32_t dtype_bytes(uint32_t dtype) {
  static constexpr uint32_t kBytes[] = {4, 2, 1, 1, 2, 2, 4, 4, 2};  // F32 F16 S8 U8 S16 U16 S32 U32 BF16
  return dtype < std::size(kBytes) ? kBytes[dtype] : 0;
}

const char *dtype_name(uint32_t dtype) {
  static constexpr const char *kNames[] = {"float32", "float16", "int8",     "uint8", "int16", "uint16",
                                           "int32",   "uint32",  "bfloat16", "int4",  "uint4"};
  return dtype < std::size(kNames) ? kNames[dtype] : "unknown";
}

uint32_t store_lanes(int32_t mode, uint32_t dtype) {
  const uint32_t bytes = dtype_bytes(dtype);
  if (mode == kStore1N) return bytes ? 1 : 0;
  const bool fits = (mode == kStore2N && bytes == 2) || (mode == kStore4N && bytes == 1);
  return fits ? 4 / bytes : 0;
}

std::string store_mode_name(int32_t mode) {
  static constexpr const char *kNames[] = {"BM_STORE_1N", "BM_STORE_2N", "BM_STORE_4N"};
  return mode >= 0 && mode < 3 ? kNames[mode] : std::to_string(mode);
}

std::string store_mode_error(int32_t mode, uint32_t dtype) {
  const uint32_t bytes = dtype_bytes(dtype);
  const std::string other = bytes == 1 || bytes == 2 ? " or " + store_mode_name(bytes == 1 ? kStore4N : kStore2N) : "";
  return "store mode " + store_mode_name(mode) + ", tensors of type " + dtype_name(dtype) + " may have " +
         store_mode_name(kStore1N) + other;
}

}  // namespace npu::bmodel
