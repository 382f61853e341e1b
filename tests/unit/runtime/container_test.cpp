// SPDX-License-Identifier: MIT
// The container: what the builder writes is read back; what is damaged is refused with a reason.
#include "runtime/bmodel/container.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>

#include "npu_isa.h"
#include "npu_regs.h"
#include "tests/unit/runtime/models.h"

namespace {

namespace fb = npu::bmodel::fb;
using npu::bmodel::check_chip;
using npu::bmodel::Container;
using npu::bmodel::FileHeader;
using npu::bmodel::Program;
using npu::bmodel::read_program;
using Bytes = std::vector<uint8_t>;

std::string container_error(const Bytes &bytes) {
  std::unique_ptr<Container> c;
  const npu::Status status = Container::from_memory(bytes.data(), bytes.size(), c);
  EXPECT_EQ(c != nullptr, status.ok());
  return status.message();
}

/// The first complaint about container, hashes or any program; empty: all is well.
npu::Status first_error(const Bytes &bytes) {
  std::unique_ptr<Container> c;
  NPU_TRY(Container::from_memory(bytes.data(), bytes.size(), c));
  NPU_TRY(c->verify_hashes());
  for (const fb::Net *net : *c->model().net())
    for (size_t s = 0; net->parameter() && s < net->parameter()->size(); ++s) {
      Program p;
      NPU_TRY(read_program(*c, *net, *net->parameter()->Get(static_cast<unsigned>(s)), p));
    }
  return {};
}

std::string full_check(const Bytes &bytes) { return first_error(bytes).message(); }

FileHeader &header(Bytes &bytes) { return *reinterpret_cast<FileHeader *>(bytes.data()); }

/// The program header of the only network's TIU binary, inside the file's bytes.
npu_program_header &program_header(Bytes &bytes) {
  const size_t blob = sizeof(FileHeader) + header(bytes).flatbuffers_size;
  const auto *model = fb::GetModel(bytes.data() + sizeof(FileHeader));
  const auto start = model->net()->Get(0)->parameter()->Get(0)->cmd_group()->Get(0)->binary_bdc()->start();
  return *reinterpret_cast<npu_program_header *>(bytes.data() + blob + start);
}

npu_program_region &program_region(Bytes &bytes, size_t i) {
  npu_program_header &h = program_header(bytes);
  return reinterpret_cast<npu_program_region *>(reinterpret_cast<uint8_t *>(&h) + h.region_offset)[i];
}

Bytes single() { return test_models::file({test_models::net("affine", {test_models::affine(16)})}); }

TEST(Container, ReturnsWhatTheBuilderWrote) {
  npu::bmodel::StageDesc stage = test_models::affine(16);
  std::iota(std::begin(stage.cost), std::end(stage.cost), 1u);
  stage.rate_16 = 10;
  stage.rate_8 = 11;
  const Bytes bytes = test_models::file({test_models::net("n", {stage})});
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_memory(bytes.data(), bytes.size(), c);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(c->verify_hashes().message(), "");
  EXPECT_EQ(check_chip(*c).message(), "");
  const fb::Net &net = *c->model().net()->Get(0);
  const fb::NetParameter &p = *net.parameter()->Get(0);
  EXPECT_EQ(net.name()->str(), "n");
  EXPECT_EQ(p.ctx_size(), 8192u);
  EXPECT_EQ(p.input_tensor()->Get(0)->name()->str(), "x");
  EXPECT_EQ(p.input_tensor()->Get(0)->shape()->Get(0)->dim()->Get(0), 16u);
  EXPECT_EQ(p.output_tensor()->Get(0)->device_addr(), stage.outputs[0].address);
  const auto coeff = c->binary(p.coeff_mem()->binary_coeff());
  EXPECT_EQ(Bytes(coeff.begin(), coeff.end()), stage.coeff);
  Program program;
  ASSERT_EQ(read_program(*c, net, p, program).message(), "");
  EXPECT_EQ(Bytes(program.tiu.begin(), program.tiu.end()), stage.tiu);
  EXPECT_EQ(Bytes(program.gdma.begin(), program.gdma.end()), stage.gdma);
  ASSERT_EQ(program.regions.size(), 4u);
  EXPECT_EQ(program.regions[2].kind, NPU_PROGRAM_CTX);
  EXPECT_EQ(program.regions[3].bytes, 64u);
  ASSERT_EQ(program.layers.size(), 2u);
  EXPECT_EQ(program.layers[1], "second");
  EXPECT_EQ(program.header.lmem_bytes, 4096u);
  EXPECT_TRUE(std::ranges::equal(program.header.cost, stage.cost));
  EXPECT_EQ(program.header.rate_16, 10u);
  EXPECT_EQ(program.header.rate_8, 11u);
}

TEST(Container, ReadsProgramsOfEarlierInstructionSets) {
  Bytes bytes = single();
  for (uint32_t version = 1; version <= NPU_ISA_VERSION; ++version) {
    program_header(bytes).isa_version = version;
    EXPECT_EQ(full_check(bytes), "") << version;
  }
}

TEST(Container, ReadsFromAnyAlignment) {
  const Bytes bytes = test_models::sample();
  for (size_t shift = 0; shift < 8; ++shift) {
    Bytes moved(bytes.size() + shift);
    std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
    std::unique_ptr<Container> c;
    EXPECT_EQ(Container::from_memory(moved.data() + shift, bytes.size(), c).message(), "");
  }
}

TEST(Container, RefusesEveryTruncation) {
  const Bytes bytes = test_models::sample();
  const FileHeader h = header(const_cast<Bytes &>(bytes));
  EXPECT_NE(container_error({}).find("shorter than the 64-byte header"), std::string::npos);
  EXPECT_NE(container_error(Bytes(bytes.begin(), bytes.begin() + 63)).find("shorter"), std::string::npos);
  const size_t blob = sizeof h + h.flatbuffers_size;
  for (const size_t size : {size_t{64}, sizeof h + 4, blob - 1, blob, blob + 1, bytes.size() - 1}) {
    const std::string why = container_error(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_NE(why.find("truncated: the header announces " + std::to_string(bytes.size()) + " bytes, there are " +
                       std::to_string(size)),
              std::string::npos)
        << why;
  }
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_NE(container_error(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))), "");
}

TEST(Container, RefusesForeignHeaders) {
  Bytes bytes = test_models::sample();
  header(bytes).magic ^= 1;
  EXPECT_NE(container_error(bytes).find("not a bmodel: the first four bytes"), std::string::npos);
  bytes = test_models::sample();
  header(bytes).header_size = 128;
  EXPECT_NE(container_error(bytes).find("header size is 128, expected 64"), std::string::npos);
  bytes = test_models::sample();
  header(bytes).flatbuffers_size = 0xffffffff;
  EXPECT_NE(container_error(bytes).find("truncated"), std::string::npos);
  bytes = test_models::sample();
  header(bytes).flatbuffers_size = 0;
  EXPECT_NE(container_error(bytes).find("flatbuffer part does not verify"), std::string::npos);
  const Bytes noise(4096, 0x5a);
  EXPECT_NE(container_error(noise).find("not a bmodel"), std::string::npos);
}

TEST(Container, RefusesBinariesBeyondTheBlob) {
  Bytes bytes = test_models::sample();
  header(bytes).binary_size = 128;  // the blob ends early: later binaries lie outside
  EXPECT_NE(container_error(bytes).find("lie beyond the 128 bytes of binary data"), std::string::npos);
}

/// The coefficients' entry of the only network, inside the file's bytes.
const fb::CoeffMem &coefficients(const Bytes &bytes) {
  return *fb::GetModel(bytes.data() + sizeof(FileHeader))->net()->Get(0)->parameter()->Get(0)->coeff_mem();
}

TEST(Container, RefusesABinaryThatBeginsInsideTheBlobAndEndsBeyondIt) {
  Bytes bytes = single();
  auto *entry = const_cast<fb::Binary *>(coefficients(bytes).binary_coeff());
  const uint64_t blob = header(bytes).binary_size, start = entry->start();
  *entry = fb::Binary(start, blob - start);
  EXPECT_EQ(container_error(bytes), "");
  for (const uint64_t size : {blob - start + 1, blob + 1, ~uint64_t{0} - start, ~uint64_t{0}}) {
    *entry = fb::Binary(start, size);
    EXPECT_NE(container_error(bytes).find("corrupt: coefficients at " + std::to_string(start) + " with " +
                                          std::to_string(size) + " bytes lie beyond"),
              std::string::npos)
        << size;
  }
}

TEST(Container, ReadsNothingBehindTheHeadIfThatIsAllThereIs) {
  const Bytes bytes = single();
  Bytes head(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(
                                                bytes.size() - header(const_cast<Bytes &>(bytes)).binary_size));
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_head(head.data(), bytes.size(), c);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_TRUE(c->binary(coefficients(bytes).binary_coeff()).empty());
  auto *entry = const_cast<fb::Binary *>(coefficients(head).binary_coeff());
  *entry = fb::Binary(entry->start(), header(head).binary_size + 1u);
  const std::string error = Container::from_head(head.data(), bytes.size(), c).message();
  EXPECT_NE(error.find("lie beyond"), std::string::npos) << error;
}

// Every seeded corruption gives an error or a model that reads consistently; sanitizers watch for the rest.
TEST(Container, SurvivesRandomCorruption) {
  const Bytes good = test_models::sample();
  std::mt19937 random(20240611);
  const size_t structure = sizeof(FileHeader) + header(const_cast<Bytes &>(good)).flatbuffers_size;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = good;
    const unsigned changes = 1 + random() % 8;
    for (unsigned i = 0; i < changes; ++i) {
      // Mostly header and flatbuffer; the blob has the program headers.
      const size_t limit = random() % 4 ? structure : bytes.size();
      const size_t at = random() % limit;
      switch (random() % 3) {
        case 0:
          bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
          break;
        case 1:
          bytes[at] = static_cast<uint8_t>(random());
          break;
        default:
          for (size_t k = at; k < std::min(at + 4, bytes.size()); ++k) bytes[k] = 0xff;
      }
    }
    if (random() % 8 == 0) bytes.resize(random() % (bytes.size() + 1));
    refused += !full_check(bytes).empty();
  }
  EXPECT_GT(refused, 10000);
}

TEST(Container, EachBitOfTheStructureMayFlip) {
  const Bytes good = single();
  const size_t structure = sizeof(FileHeader) + header(const_cast<Bytes &>(good)).flatbuffers_size;
  Bytes bytes = good;
  for (size_t bit = 0; bit < structure * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    full_check(bytes);
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
  }
  EXPECT_EQ(full_check(bytes), "");
}

TEST(Container, NamesTheChipOfAForeignModel) {
  Bytes bytes = single();
  const std::string from = "QNPU1";
  const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  ASSERT_NE(at, bytes.end());
  std::copy_n("BM168", 5, at);
  EXPECT_NE(full_check(bytes).find("compiled for BM168, this device is QNPU1"), std::string::npos) << full_check(bytes);
}

// As the vendor's compiler writes them: another chip, a dynamic network without anything that this runtime looks for.
TEST(Container, NamesTheChipOfAVendorModel) {
  flatbuffers::FlatBufferBuilder b;
  std::vector<flatbuffers::Offset<fb::Net>> nets{fb::CreateNetDirect(b, "yolo")};
  b.Finish(fb::CreateModelDirect(b, "B", "2.2", "2023", "BM1684X", &nets));
  Bytes bytes(sizeof(FileHeader));
  header(bytes) = {npu::bmodel::kMagic, sizeof(FileHeader), b.GetSize(), 0, {}};
  bytes.insert(bytes.end(), b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_memory(bytes.data(), bytes.size(), c);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(check_chip(*c).message(), "(memory): compiled for BM1684X, this device is QNPU1");
}

TEST(Container, FindsChangedCoefficients) {
  Bytes bytes = single();
  const size_t blob = sizeof(FileHeader) + header(bytes).flatbuffers_size;
  const auto *coeff = fb::GetModel(bytes.data() + sizeof(FileHeader))->net()->Get(0)->parameter()->Get(0)->coeff_mem();
  bytes[blob + coeff->binary_coeff()->start() + 5] ^= 0x10;
  std::unique_ptr<Container> c;
  const npu::Status opened = Container::from_memory(bytes.data(), bytes.size(), c);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_NE(c->verify_hashes().message().find("do not have the SHA-256"), std::string::npos);
}

TEST(Container, CannotVerifyCoefficientsWithoutAWholeHash) {
  for (const uint32_t size : {0u, 31u, 33u}) {
    Bytes bytes = single();
    // A vector begins with its length.
    auto *hash = const_cast<uint8_t *>(reinterpret_cast<const uint8_t *>(coefficients(bytes).check_code()));
    std::memcpy(hash, &size, sizeof size);
    std::unique_ptr<Container> c;
    const npu::Status opened = Container::from_memory(bytes.data(), bytes.size(), c);
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_NE(
        c->verify_hashes().message().find("the file has no SHA-256 of the coefficients of network 'affine' stage 0"),
        std::string::npos)
        << size;
  }
}

class TempFile {
 public:
  explicit TempFile(const Bytes &bytes) {
    const int fd = mkstemp(path_);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    close(fd);
  }
  ~TempFile() { unlink(path_); }
  const char *path() const { return path_; }

 private:
  char path_[32] = "/tmp/npu-container-XXXXXX";
};

TEST(Container, OpensReadOnlyFiles) {
  const TempFile f(single());
  ASSERT_EQ(chmod(f.path(), 0400), 0);
  std::unique_ptr<Container> c;
  EXPECT_EQ(Container::open(f.path(), c).message(), "");
}

TEST(Container, NamesTheFileThatItCannotOpen) {
  std::unique_ptr<Container> c;
  EXPECT_EQ(Container::open("/nonexistent/x.bmodel", c).message(),
            "/nonexistent/x.bmodel: cannot open: No such file or directory");
  EXPECT_EQ(Container::open("/tmp", c).message(), "/tmp: not a regular file");
  const std::string pipe = testing::TempDir() + "npu-container-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Container::open(pipe, c).message(), pipe + ": not a regular file");  // without waiting for a writer
  unlink(pipe.c_str());
  const TempFile empty(Bytes{});
  EXPECT_NE(Container::open(empty.path(), c).message().find("0 bytes, shorter than the 64-byte header"),
            std::string::npos);
  EXPECT_EQ(c, nullptr);
}

// ---- the program header and its tables

struct Damage {
  const char *name;
  std::function<void(Bytes &)> apply;
  const char *message;
};

class DamagedProgram : public testing::TestWithParam<Damage> {};

TEST_P(DamagedProgram, IsRefusedWithTheReason) {
  Bytes bytes = single();
  GetParam().apply(bytes);
  const std::string why = full_check(bytes);
  EXPECT_NE(why.find(GetParam().message), std::string::npos) << "got: " << why;
  EXPECT_NE(why.find("network 'affine'"), std::string::npos) << "got: " << why;
}

const Damage kDamages[] = {
    {"Magic", [](Bytes &b) { program_header(b).magic = 0; }, "does not begin with a QNPU1 program header"},
    {"Version", [](Bytes &b) { program_header(b).version = 9; }, "program header version 9"},
    {"Isa", [](Bytes &b) { program_header(b).isa_version = 4; }, "compiled for ISA version 4, this runtime has 1 to 3"},
    {"RatesBeforeIsa3", [](Bytes &b) { program_header(b).isa_version = 2, program_header(b).rate_8 = 4; },
     "reserved words"},
    {"ChipId", [](Bytes &b) { program_header(b).chip_id = 7; }, "compiled for chip id 7"},
    {"Reserved", [](Bytes &b) { program_header(b).reserved[5] = 1; }, "reserved words"},
    {"CommandsOutside", [](Bytes &b) { program_header(b).commands_offset = 0x80000000; }, "not inside the binary"},
    {"CommandsUnaligned", [](Bytes &b) { program_header(b).commands_offset = 130; }, "not inside the binary"},
    {"TooManyRegions", [](Bytes &b) { program_header(b).region_count = NPU_MAX_REGIONS - 1; }, "a table"},
    {"RegionCountWraps", [](Bytes &b) { program_header(b).region_count = 0xfffffffe; }, "a table"},
    {"RegionTableOutside", [](Bytes &b) { program_header(b).region_offset = 0xfffffff0; }, "a table"},
    {"AliasTableOutside", [](Bytes &b) { program_header(b).alias_count = 0x20000000; }, "a table"},
    {"LayersOutside", [](Bytes &b) { program_header(b).layer_count = 1000; }, "a table"},
    {"AliasOfNothing", [](Bytes &b) { program_header(b).alias_count = 1; }, "an alias names a tensor"},
    {"RegionKind", [](Bytes &b) { program_region(b, 0).kind = 77; }, "region 0: kind 77 is unknown"},
    {"RegionKindNone", [](Bytes &b) { program_region(b, 1).kind = 0; }, "region 1: kind 0 is unknown"},
    {"RegionTooLarge", [](Bytes &b) { program_region(b, 0).bytes = 65; },
     "region 0: 65 bytes, what it stands for has 64"},
    {"RegionEmpty", [](Bytes &b) { program_region(b, 1).bytes = 0; }, "region 1: 0 bytes"},
    {"RegionHuge", [](Bytes &b) { program_region(b, 2).bytes = ~0ull; }, "region 2: 18446744073709551615 bytes"},
    {"RegionTensor", [](Bytes &b) { program_region(b, 1).index = 3; }, "tensor number 3 does not exist"},
    {"InputWritten", [](Bytes &b) { program_region(b, 0).access = 3; }, "region 0: an input is written"},
    {"CoeffWritten", [](Bytes &b) { program_region(b, 3).access = 2; }, "region 3: coefficients are written"},
    {"RegionNoAccess", [](Bytes &b) { program_region(b, 1).access = 0; }, "region 1: access 0 is unknown"},
    {"RegionBadAccess", [](Bytes &b) { program_region(b, 1).access = 6; }, "region 1: access 6 is unknown"},
    {"RegionReserved", [](Bytes &b) { program_region(b, 1).reserved1 = 1; }, "region 1: reserved words"},
};

std::string error_of(const npu::bmodel::StageDesc &stage) {
  return full_check(test_models::file({test_models::net("n", {stage})}));
}

TEST(Program, HasAtMostAsManyRegionsAsAJobHasRoomFor) {
  npu::bmodel::StageDesc stage = test_models::affine(16);
  stage.regions.resize(NPU_MAX_REGIONS - 2, stage.regions[0]);
  EXPECT_EQ(error_of(stage), "");
  stage.regions.push_back(stage.regions[0]);
  EXPECT_NE(error_of(stage).find("a table of the program header"), std::string::npos) << error_of(stage);
}

TEST(Program, BothTensorsOfAnAliasExist) {
  npu::bmodel::StageDesc stage = test_models::affine(16);
  stage.aliases = {{0, 0, 0}};
  EXPECT_EQ(error_of(stage), "");
  for (const npu_program_alias alias : {npu_program_alias{1, 0, 0}, npu_program_alias{0, 1, 0}}) {
    stage.aliases = {alias};
    EXPECT_NE(error_of(stage).find("an alias names a tensor that does not exist"), std::string::npos)
        << error_of(stage);
  }
}

TEST(Program, DimensionsArePositiveIntegersOf32Bits) {
  for (const uint64_t dim : {uint64_t{0}, uint64_t{0x80000000}, ~uint64_t{0}}) {
    Bytes bytes = single();
    const auto *tensor =
        fb::GetModel(bytes.data() + sizeof(FileHeader))->net()->Get(0)->parameter()->Get(0)->input_tensor()->Get(0);
    auto *dims = const_cast<uint8_t *>(tensor->shape()->Get(0)->dim()->Data());
    std::memcpy(dims, &dim, sizeof dim);
    EXPECT_NE(full_check(bytes).find("input 'x' has the dim " + std::to_string(dim)), std::string::npos)
        << full_check(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Container, DamagedProgram, testing::ValuesIn(kDamages),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Builder, RefusesDescriptionsThatMakeNoModel) {
  Bytes out;
  EXPECT_FALSE(npu::bmodel::build({}, out).ok());
  EXPECT_FALSE(npu::bmodel::build({{test_models::net("", {test_models::sum()})}, ""}, out).ok());
  EXPECT_FALSE(npu::bmodel::build({{test_models::net("n", {})}, ""}, out).ok());
  npu::bmodel::StageDesc odd = test_models::sum();
  odd.gdma.pop_back();
  EXPECT_FALSE(npu::bmodel::build({{test_models::net("n", {odd})}, ""}, out).ok());
}

TEST(Builder, IsReproducible) { EXPECT_EQ(test_models::sample(), test_models::sample()); }

}  // namespace
