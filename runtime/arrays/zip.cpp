// SPDX-License-Identifier: MIT
#include "runtime/arrays/zip.h"

#include <zlib.h>

#include <cstdint>

namespace npu::arrays {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEntry = 0x02014b50, kFile = 0x04034b50;
constexpr size_t kEndBytes = 22, kEntryBytes = 46, kFileBytes = 30, kMostComment = 65535;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1;

const char *const kDamaged = "its directory is damaged";

/// Little-endian numbers; those behind the end are 0.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  uint32_t number(size_t at, size_t length) const {
    uint32_t v = 0;
    for (size_t i = 0; i < length && at + i < bytes_.size(); ++i)
      v |= static_cast<uint32_t>(static_cast<uint8_t>(bytes_[at + i])) << (8 * i);
    return v;
  }
  uint16_t u16(size_t at) const { return static_cast<uint16_t>(number(at, 2)); }
  uint32_t u32(size_t at) const { return number(at, 4); }
  /// False: that part is not there.
  bool part(size_t at, size_t length, std::string_view &out) const {
    if (at > bytes_.size() || length > bytes_.size() - at) return false;
    out = bytes_.substr(at, length);
    return true;
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

Status inflate_all(std::string_view packed, std::string &out) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Status::error("zlib does not start");
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = inflate(&stream, Z_FINISH);
  const bool whole = done == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole ? Status() : Status::error("its compressed data is damaged");
}

/// What an entry of the directory says.
struct Entry {
  uint16_t flags, method;
  uint32_t checksum, packed, size, offset;
};

Status read_file(const Bytes &archive, const Entry &e, std::string &out) {
  constexpr uint64_t kMostGrowth = 1032;  // of deflated data
  std::string_view data;
  if (archive.u32(e.offset) != kFile) return Status::error(kDamaged);
  const size_t from = size_t{e.offset} + kFileBytes + archive.u16(e.offset + 26) + archive.u16(e.offset + 28);
  if (!archive.part(from, e.packed, data)) return Status::error("it is not all there");
  if (e.flags & kEncrypted) return Status::error("it is encrypted");
  if (e.method == kStored && e.packed == e.size) {
    out = data;
  } else if (e.method == kDeflated && e.size / kMostGrowth <= e.packed) {
    out.resize(e.size);
    NPU_TRY(inflate_all(data, out));
  } else {
    return Status::error("it is neither stored nor deflated");
  }
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef *>(out.data()), out.size());
  return sum == e.checksum ? Status() : Status::error("its checksum is wrong");
}

/// What the directory says of the wanted files.
Status read_directory(const Bytes &archive, const std::set<std::string> &wanted, std::map<std::string, Entry> &out,
                      std::set<std::string> *others) {
  size_t end = archive.size() < kEndBytes ? 0 : archive.size() - kEndBytes;
  const size_t first = end > kMostComment ? end - kMostComment : 0;
  while (end > first && archive.u32(end) != kEnd) --end;
  if (archive.u32(end) != kEnd) return Status::error("not a zip archive");
  size_t at = archive.u32(end + 16);
  const uint16_t count = archive.u16(end + 10);
  if (archive.u32(end + 16) == UINT32_MAX || archive.u16(end + 4) != 0)
    return Status::error("an archive of more than 4 GiB or of several parts");
  for (uint16_t i = 0; i < count; ++i) {
    if (archive.u32(at) != kEntry) return Status::error(kDamaged);
    const Entry e{archive.u16(at + 8),  archive.u16(at + 10), archive.u32(at + 16),
                  archive.u32(at + 20), archive.u32(at + 24), archive.u32(at + 42)};
    std::string_view text;
    if (!archive.part(at + kEntryBytes, archive.u16(at + 28), text)) return Status::error(kDamaged);
    at += kEntryBytes + text.size() + archive.u16(at + 30) + archive.u16(at + 32);
    const std::string name(text);
    if (!wanted.count(name)) {
      if (others) others->insert(name);
      continue;
    }
    if (e.packed == UINT32_MAX || e.size == UINT32_MAX || e.offset == UINT32_MAX)
      return Status::error(name + ": a file of 4 GiB or more (zip64)");
    if (!out.emplace(name, e).second) return Status::error("it has two files " + name);
  }
  return {};
}

}  // namespace

Status unzip(std::string_view text, const std::set<std::string> &wanted, std::map<std::string, std::string> &out,
             std::set<std::string> *others) {
  const Bytes archive(text);
  std::map<std::string, Entry> entries;
  NPU_TRY(read_directory(archive, wanted, entries, others));
  uint64_t sum = 0;
  for (const auto &[name, e] : entries) sum += e.size;
  if (sum > UINT32_MAX)
    return Status::error("its arrays have " + std::to_string(sum) + " bytes together, at most 4 GiB are expected");
  for (const auto &[name, e] : entries) NPU_TRY(read_file(archive, e, out[name]).within(name));
  return {};
}

}  // namespace npu::arrays
