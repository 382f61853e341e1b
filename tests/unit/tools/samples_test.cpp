// SPDX-License-Identifier: MIT
// Samples as files: arrays and archives of numpy, pictures, folders (tests/oracle/sample_files.py makes them).
#include <gtest/gtest.h>
#include <jpeglib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "runtime/arrays/file.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/zip.h"
#include "tools/npuc/folder.h"

namespace npu::test {
namespace {

namespace fs = std::filesystem;
using arrays::Picture;
using arrays::Preprocess;
using graph::Dtype;
using graph::Shape;
using graph::Tensor;
using npuc::FolderSamples;
using quantize::Input;

constexpr int64_t kWidth = 5, kHeight = 4;

std::string source() { return std::getenv("NPU_SAMPLE_FILES"); }

std::string bytes_of(const std::string &path) {
  std::string out;
  EXPECT_TRUE(arrays::read_file(path, out).ok()) << path;
  return out;
}

/// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "npu-samples-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  const std::string &path() const { return path_; }
  /// A copy of a file, below folders that are made.
  Folder &add(const std::string &file, const std::string &as) { return write(as, bytes_of(source() + "/" + file)); }
  Folder &write(const std::string &as, const std::string &bytes) {
    fs::create_directories(fs::path(path_ + "/" + as).parent_path());
    std::ofstream(path_ + "/" + as, std::ios::binary) << bytes;
    return *this;
  }
  std::string at(const std::string &file) const { return path_ + "/" + file; }

 private:
  std::string path_;
};

const Input kMatrix{{Dtype::F32, {2, 3}}, "a"}, kIndices{{Dtype::I32, {4}}, "b"};

/// The first sample of a folder; or the error.
std::string load(const Folder &folder, const std::vector<Input> &inputs, std::vector<Tensor> &out,
                 std::optional<Preprocess> preprocess = {}) {
  FolderSamples samples(folder.path(), SIZE_MAX, preprocess);
  const Status opened = samples.open(inputs);
  return opened.ok() ? samples.load(0, out).message() : opened.message();
}
std::string error(const Folder &folder, const std::vector<Input> &inputs = {kMatrix}) {
  std::vector<Tensor> out;
  return load(folder, inputs, out);
}

void expect_ramp(const Tensor &t, int64_t period = 0) {
  for (int64_t i = 0; i < t.count(); ++i) EXPECT_EQ(t.as<float>()[i], static_cast<float>(period ? i % period : i));
}

TEST(Arrays, OfAllTypes) {
  for (const char *name : {"f4", "f8", "f2", "i8", "u1", "batch"}) {
    Folder folder;
    folder.add(std::string(name) + ".npy", "x.npy");
    std::vector<Tensor> out;
    ASSERT_EQ(load(folder, {kMatrix}, out), "") << name;
    EXPECT_EQ(out[0].shape, (Shape{2, 3}));
    expect_ramp(out[0]);
  }
}

TEST(Arrays, WithAndWithoutTheBatch) {
  Folder folder;
  folder.add("f4.npy", "x.npy");
  std::vector<Tensor> out;
  ASSERT_EQ(load(folder, {{{Dtype::F32, {1, 2, 3}}, "a"}}, out), "");
  EXPECT_EQ(out[0].shape, (Shape{1, 2, 3}));
  ASSERT_EQ(load(folder, {{{Dtype::F32, {4, 2, 3}}, "a"}}, out), "");
  EXPECT_EQ(out[0].shape, (Shape{4, 2, 3}));
  expect_ramp(out[0], 6);
}

TEST(Arrays, ThatDoNotFit) {
  Folder folder;
  folder.add("f4.npy", "x.npy");
  EXPECT_EQ(error(folder, {{{Dtype::F32, {3, 2}}, "a"}}),
            folder.at("x.npy") + ": it has the shape [2, 3], input 'a' has [3, 2]");
  EXPECT_EQ(error(folder, {{{Dtype::I32, {2, 3}}, "a"}}),
            folder.at("x.npy") + ": it has numbers of type float32, int32 is expected");
  Folder broken;
  broken.write("x.npy", "hello");
  EXPECT_EQ(error(broken), broken.at("x.npy") + ": not a .npy file");
}

std::string npy(const std::string &shape, const std::string &order, size_t count) {
  const std::string head = "{'descr': '<f4', " + order + "'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(head.size()) + std::string(1, '\0') + head +
         std::string(4 * count, '\0');
}

TEST(Arrays, HaveTheShapeAndOrderThatTheirHeaderSays) {
  const auto read = [](const std::string &shape, size_t count, const std::string &order = "'fortran_order': False, ") {
    graph::TensorPtr tensor;
    const Status status = arrays::parse_npy(npy(shape, order, count), tensor);
    return status.ok() ? graph::shape_text(tensor->shape) : status.message();
  };
  EXPECT_EQ(read("(2, 3)", 6), "[2, 3]");
  EXPECT_EQ(read("(2L,)", 2), "[2]");
  EXPECT_EQ(read("()", 1), "[]");
  EXPECT_EQ(read("(0,)", 0), "[0]");
  for (const char *shape : {"(18446744073709551617,)", "(-5,)", "(2, x)", "(2,, 3)", "(2 3)", "5"})
    EXPECT_EQ(read(shape, 6), "its header does not have a shape such as (2, 3)") << shape;
  EXPECT_EQ(read("(2,)", 2, ""), "its header does not say whether it is in Fortran order");
  EXPECT_EQ(read("(2, 3)", 6, "'fortran_order': True, "), "[2, 3]");
}

TEST(Arrays, OfAnyOrderOfBytesAndElements) {
  const auto read = [](const std::string &descr, const char *fortran, const std::string &bytes) {
    const std::string head = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': (2, 3), }\n";
    graph::TensorPtr tensor;
    const Status status = arrays::parse_npy(
        std::string("\x93NUMPY\1\0", 8) + static_cast<char>(head.size()) + std::string(1, '\0') + head + bytes, tensor);
    if (!status.ok()) return status.message();
    std::string out;
    for (int64_t i = 0; i < tensor->count(); ++i)
      out += std::to_string(tensor->dtype == Dtype::I16 ? tensor->as<int16_t>()[i] : tensor->as<uint8_t>()[i]) + " ";
    return out;
  };
  const std::string bytes("\0\1\0\2\0\3\0\4\0\5\0\6", 12);
  EXPECT_EQ(read(">i2", "False", bytes), "1 2 3 4 5 6 ");
  EXPECT_EQ(read(">i2", "True", bytes), "1 3 5 2 4 6 ");
  EXPECT_EQ(read("<i2", "True", bytes), "256 768 1280 512 1024 1536 ");
  EXPECT_EQ(read("|u1", "True", "\1\2\3\4\5\6"), "1 3 5 2 4 6 ");
  EXPECT_EQ(read("<c8", "False", bytes),
            "its element type is neither floating point of 16 to 64 bits nor an integer nor bool: convert it with "
            "astype()");
}

TEST(Arrays, OfIntegersThatTheInputCannotHold) {
  const auto message = [](const char *file, Dtype type) {
    Folder folder;
    folder.add(file, "x.npy");
    const std::string text = error(folder, {{{type, {2}}, "a"}}), prefix = folder.at("x.npy") + ": ";
    return text.substr(0, prefix.size()) == prefix ? text.substr(prefix.size()) : text;
  };
  EXPECT_EQ(message("u64.npy", Dtype::I32), "element 1 is 18446744073709551615, which int32 cannot hold");
  EXPECT_EQ(message("u64.npy", Dtype::I64), "element 1 is 18446744073709551615, which int64 cannot hold");
  EXPECT_EQ(message("u64.npy", Dtype::U64), "");
  EXPECT_EQ(message("minus.npy", Dtype::U32), "element 1 is -1, which uint32 cannot hold");
  EXPECT_EQ(message("minus.npy", Dtype::U64), "element 1 is -1, which uint64 cannot hold");
  EXPECT_EQ(message("minus.npy", Dtype::I32), "");
}

TEST(Archives, StoredAndDeflated) {
  for (const char *name : {"stored.npz", "deflated.npz"}) {
    Folder folder;
    folder.add(name, "one.npz").add(name, "two.npz");
    std::vector<Tensor> out;
    ASSERT_EQ(load(folder, {kIndices, kMatrix}, out), "") << name;
    expect_ramp(out[1]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[0].as<int32_t>()[i], i);
  }
}

TEST(Archives, ErrorsNameFileAndArray) {
  Folder folder;
  folder.add("stored.npz", "x.npz");
  EXPECT_EQ(error(folder, {kMatrix, {{Dtype::F32, {1}}, "c"}}), folder.at("x.npz") + ": it has no array for input 'c'");
  EXPECT_EQ(error(folder, {kMatrix, {{Dtype::F32, {2, 2}}, "b"}}),
            folder.at("x.npz") + ": b.npy: it has the shape [4], input 'b' has [2, 2]");
  folder.write("x.npz", "no archive");
  EXPECT_EQ(error(folder), folder.at("x.npz") + ": not a zip archive");
}

const std::set<std::string> kArrays{"a.npy", "b.npy"};

TEST(Archives, GiveWhatIsWantedAlone) {
  std::map<std::string, std::string> files;
  ASSERT_EQ(arrays::unzip(bytes_of(source() + "/stored.npz"), {"b.npy", "c.npy"}, files).message(), "");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files.begin()->first, "b.npy");
}

std::string number(uint64_t v, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i));
  return out;
}

/// A directory alone, in which all files have that size.
std::string directory(const std::vector<std::string> &names, uint64_t size) {
  std::string out;
  for (const std::string &name : names)
    out += number(0x02014b50, 4) + std::string(16, '\0') + number(size, 4) + number(size, 4) + number(name.size(), 2) +
           std::string(16, '\0') + name;
  return out + number(0x06054b50, 4) + std::string(6, '\0') + number(names.size(), 2) + number(out.size(), 4) +
         number(0, 4) + number(0, 2);
}

TEST(Archives, OfTooMuchAreRefused) {
  const auto message = [](const std::vector<std::string> &names, uint64_t size) {
    std::map<std::string, std::string> files;
    return arrays::unzip(directory(names, size), kArrays, files).message();
  };
  EXPECT_EQ(message({"a.npy", "b.npy"}, uint64_t{1} << 31),
            "its arrays have 4294967296 bytes together, at most 4 GiB are expected");
  EXPECT_EQ(message({"a.npy"}, UINT32_MAX), "a.npy: a file of 4 GiB or more (zip64)");
  EXPECT_EQ(message({"a.npy", "c.npy", "a.npy"}, 8), "it has two files a.npy");
  EXPECT_EQ(message({"c.npy", "c.npy"}, UINT32_MAX), "");
}

TEST(Archives, DamagedOnesNeverCrash) {
  for (const char *name : {"stored.npz", "deflated.npz"}) {
    const std::string whole = bytes_of(source() + "/" + name);
    std::map<std::string, std::string> files;
    size_t refused = 0;
    for (size_t n = 0; n < whole.size(); ++n) refused += !arrays::unzip(whole.substr(0, n), kArrays, files).ok();
    EXPECT_EQ(refused, whole.size());
    uint32_t random = 3;
    for (int i = 0; i < 3000; ++i) {
      std::string damaged = whole;
      random = random * 1664525u + 1013904223u;
      damaged[(random >> 8) % damaged.size()] = static_cast<char>(random >> 24);
      files.clear();
      (void)arrays::unzip(damaged, kArrays, files);
    }
  }
}

// Pictures.

std::string jpeg(bool cmyk = false) {
  std::vector<uint8_t> rgb;
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x) {
      for (int64_t c : {10 * x, 12 * y, 4 * (x + y)}) rgb.push_back(static_cast<uint8_t>(c));
      if (cmyk) rgb.push_back(0);
    }
  const int channels = cmyk ? 4 : 3;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = info.image_height = 16;
  info.input_components = channels;
  info.in_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (size_t y = 0; y < 16; ++y) {
    JSAMPROW row = rgb.data() + y * 16 * static_cast<size_t>(channels);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<char *>(data), size);
  jpeg_destroy_compress(&info);
  std::free(data);
  return out;
}

TEST(Pictures, OfAllFormats) {
  for (const char *name : {"rgb.png", "alpha.png", "rgb.bmp", "rgb.ppm", "gray.png", "gray.pgm"}) {
    Picture p;
    ASSERT_EQ(arrays::parse_picture(bytes_of(source() + "/" + name), p).message(), "") << name;
    ASSERT_EQ(p.width, kWidth) << name;
    ASSERT_EQ(p.height, kHeight) << name;
    for (int64_t y = 0; y < kHeight; ++y)
      for (int64_t x = 0; x < kWidth; ++x) {
        const float *rgb = &p.pixels[static_cast<size_t>((y * kWidth + x) * 3)];
        const bool gray = name[0] == 'g';
        const auto g = static_cast<float>(10 * x + y);
        EXPECT_EQ(rgb[0], gray ? g : static_cast<float>(10 * x)) << name;
        EXPECT_EQ(rgb[1], gray ? g : static_cast<float>(20 * y)) << name;
        EXPECT_EQ(rgb[2], gray ? g : static_cast<float>(7 * (x + y))) << name;
      }
  }
}

TEST(Pictures, Jpeg) {
  Picture p;
  ASSERT_EQ(arrays::parse_picture(jpeg(), p).message(), "");
  ASSERT_EQ(p.width * p.height, 256);
  for (size_t y = 0; y < 16; ++y)
    for (size_t x = 0; x < 16; ++x) {
      EXPECT_NEAR(p.pixels[(y * 16 + x) * 3], static_cast<float>(10 * x), 8);
      EXPECT_NEAR(p.pixels[(y * 16 + x) * 3 + 1], static_cast<float>(12 * y), 8);
    }
}

TEST(Pictures, DamagedOnesAreErrorsAndNeverCrash) {
  std::vector<std::string> all{jpeg()};
  for (const char *name : {"rgb.png", "alpha.png", "rgb.bmp", "rgb.ppm", "gray.png", "gray.pgm"})
    all.push_back(bytes_of(source() + "/" + name));
  for (const std::string &whole : all) {
    Picture p;
    EXPECT_FALSE(arrays::parse_picture(whole.substr(0, whole.size() / 2), p).ok());
    uint32_t random = 5;
    for (int i = 0; i < 500; ++i) {
      std::string damaged = whole.substr(0, i % 2 ? whole.size() : (random >> 8) % whole.size());
      random = random * 1664525u + 1013904223u;
      if (!damaged.empty()) damaged[(random >> 8) % damaged.size()] = static_cast<char>(random >> 24);
      // A size of many gigabytes is an error as well, but takes time.
      if (damaged.substr(0, 24) == whole.substr(0, 24)) (void)arrays::parse_picture(damaged, p);
    }
  }
  Picture p;
  EXPECT_EQ(arrays::parse_picture("GIF89a", p).message(), "not a picture: PNG, JPEG, BMP, PPM or PGM is expected");
  EXPECT_EQ(arrays::parse_picture("P6 3 0 255\n", p).message(),
            "a picture of 3 x 0 pixels, 1 to 32768 a side and at most 67108864 together are expected");
  EXPECT_EQ(arrays::parse_picture("P5 4294967297 1 255\n1", p).message(),
            "a picture of 4294967297 x 1 pixels, 1 to 32768 a side and at most 67108864 together are expected");
  EXPECT_FALSE(arrays::parse_picture("P5 1 99999999999999999999 255\n1", p).ok());
  EXPECT_TRUE(arrays::parse_picture("P5 0000000000000000000000001 01 0255\n1", p).ok());
  EXPECT_EQ(p.pixels.size(), 3u);
  EXPECT_EQ(arrays::parse_picture("P6 2 2 65535\n", p).message(),
            "a PPM with values up to 65535, 1 to 255 is expected");
}

/// Most bytes that the process has had in memory so far.
int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

/// A PNG's header alone, or a JPEG's with other sizes.
std::string png_of(uint32_t width, uint32_t height) {
  std::string out = bytes_of(source() + "/rgb.png");
  for (size_t i = 0; i < 4; ++i) {
    out[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    out[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef *>(out.data()) + 12, 17);
  for (size_t i = 0; i < 4; ++i) out[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  return out;
}
std::string jpeg_of(uint32_t width, uint32_t height) {
  std::string out = jpeg();
  const size_t frame = out.find("\xff\xc0");
  for (size_t i = 0; i < 2; ++i) {
    out[frame + 5 + i] = static_cast<char>(height >> (8 - 8 * i));
    out[frame + 7 + i] = static_cast<char>(width >> (8 - 8 * i));
  }
  return out;
}

/// Before memory is taken for their pixels.
TEST(Pictures, OfTooManyPixelsAreRefused) {
  const int64_t before = peak_bytes();
  const std::string limit = " pixels, 1 to 32768 a side and at most 67108864 together are expected";
  Picture p;
  EXPECT_EQ(arrays::parse_picture(png_of(32768, 2049), p).message(), "a picture of 32768 x 2049" + limit);
  EXPECT_EQ(arrays::parse_picture(jpeg_of(65500, 65500), p).message(), "a picture of 65500 x 65500" + limit);
  EXPECT_EQ(arrays::parse_picture(jpeg_of(8193, 8193), p).message(), "a picture of 8193 x 8193" + limit);
  EXPECT_EQ(arrays::parse_picture("P6 32768 2049 255\n", p).message(), "a picture of 32768 x 2049" + limit);
  EXPECT_LT(peak_bytes() - before, 100 << 20);
}

TEST(Pictures, InFormsThatAreNotTakenSayWhatIsExpected) {
  Picture p;
  EXPECT_EQ(arrays::parse_picture(jpeg(true), p).message(), "a JPEG of 4 channels (CMYK), gray or RGB is expected");
  // A header as OS/2 wrote it: 2 x 3 pixels.
  EXPECT_EQ(arrays::parse_picture(
                std::string("BM\0\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0\2\0\3\0\1\0\x18\0", 26) + std::string(24, '\0'), p)
                .message(),
            "a BMP with a header of 12 bytes, at least 40 are expected");
}

Preprocess preprocess(const std::string &text) {
  Preprocess out;
  EXPECT_EQ(arrays::parse_preprocess(text, out).message(), "");
  return out;
}

Tensor tensor(const std::string &text, const std::string &file = "rgb.png") {
  Picture p;
  Tensor out;
  EXPECT_TRUE(arrays::parse_picture(bytes_of(source() + "/" + file), p).ok());
  EXPECT_EQ(arrays::to_tensor(p, preprocess(text), out).message(), "");
  return out;
}

TEST(Preprocessing, ScalesAndOrdersChannels) {
  const Tensor t = tensor("scale=1/10,mean=1,2,3,std=1,2,4");
  ASSERT_EQ(t.shape, (Shape{1, 3, kHeight, kWidth}));
  // x = 3, y = 2: 30, 40, 35.
  EXPECT_FLOAT_EQ(t.as<float>()[13], (3.0f - 1) / 1);
  EXPECT_FLOAT_EQ(t.as<float>()[20 + 13], (4.0f - 2) / 2);
  EXPECT_FLOAT_EQ(t.as<float>()[40 + 13], (3.5f - 3) / 4);
  const Tensor last = tensor("order=bgr,layout=nhwc");
  ASSERT_EQ(last.shape, (Shape{1, kHeight, kWidth, 3}));
  EXPECT_EQ(last.as<float>()[13 * 3], 35);
  EXPECT_EQ(last.as<float>()[13 * 3 + 2], 30);
  const Tensor gray = tensor("order=gray");
  ASSERT_EQ(gray.shape, (Shape{1, 1, kHeight, kWidth}));
  EXPECT_FLOAT_EQ(gray.as<float>()[13], 0.299f * 30 + 0.587f * 40 + 0.114f * 35);
  EXPECT_FLOAT_EQ(tensor("order=gray", "gray.png").as<float>()[13], 32);
}

TEST(Preprocessing, CropsTheMiddle) {
  const Tensor t = tensor("crop=3x2");
  ASSERT_EQ(t.shape, (Shape{1, 3, 2, 3}));
  EXPECT_EQ(t.as<float>()[0], 10);  // x = 1
  EXPECT_EQ(t.as<float>()[6], 20);  // y = 1
  Picture p{5, 4, std::vector<float>(60)};
  Tensor out;
  EXPECT_EQ(arrays::to_tensor(p, preprocess("crop=6"), out).message(),
            "it has 5 x 4 pixels, a crop of 6 x 6 does not fit in");
}

TEST(Preprocessing, Resizes) {
  // The shorter side becomes 2, the other one 2 * 5 / 4.
  EXPECT_EQ(tensor("resize=2").shape, (Shape{1, 3, 2, 2}));
  EXPECT_EQ(tensor("resize=8").shape, (Shape{1, 3, 8, 10}));
  const Tensor t = tensor("resize=5x2");
  ASSERT_EQ(t.shape, (Shape{1, 3, 2, 5}));
  // Half as high: triangles over the rows 0 to 2, with the weights 3, 3, 1 by 7.
  EXPECT_NEAR(t.as<float>()[10], (3 * 0 + 3 * 20 + 1 * 40) / 7.0, 1e-4);
  // Twice as wide: between two pixels, a quarter of the way.
  EXPECT_NEAR(tensor("resize=10x4").as<float>()[3], 10 + 2.5, 1e-4);
}

TEST(Preprocessing, RefusesToMakeTooManyPixels) {
  const auto message = [](int64_t width, int64_t height, const std::string &text) {
    Tensor out;
    return arrays::to_tensor({width, height, std::vector<float>(static_cast<size_t>(width * height * 3))},
                             preprocess(text), out)
        .message();
  };
  const int64_t before = peak_bytes();
  const std::string limit = " pixels, 1 to 32768 a side and at most 67108864 together are expected";
  EXPECT_EQ(message(32768, 1, "resize=256"), "resized: a picture of 8388608 x 1" + limit);
  EXPECT_EQ(message(1, 4096, "resize=32768"), "resized: a picture of 32768 x 4096" + limit);
  EXPECT_EQ(message(2, 2, "resize=32768x4096"), "resized: a picture of 32768 x 4096" + limit);
  EXPECT_LT(peak_bytes() - before, 100 << 20);
}

TEST(Preprocessing, Errors) {
  const auto message = [](const std::string &text) {
    Preprocess out;
    return arrays::parse_preprocess(text, out).message();
  };
  EXPECT_EQ(message("224"), "--preprocess 224: KEY=VALUE,... is expected");
  EXPECT_EQ(message("size=2"),
            "--preprocess: there is no 'size': resize, crop, scale, mean, std, order and layout are known");
  EXPECT_EQ(message("resize=0"), "--preprocess: resize is expected to be a size such as 256 or 320x240");
  EXPECT_EQ(message("mean=1,2"), "--preprocess: mean is expected to be one or three numbers");
  EXPECT_EQ(message("std=0"), "--preprocess: std is expected to be one or three numbers, none of them 0");
  EXPECT_EQ(message("scale=1/0"), "--preprocess: scale is expected to be a number such as 1/255");
  EXPECT_EQ(message("order=rbg"), "--preprocess: order is expected to be rgb, bgr or gray");
  EXPECT_EQ(message("layout=chw"), "--preprocess: layout is expected to be nchw or nhwc");
  EXPECT_EQ(message("resize=320x240,scale=2,resize=256"), "--preprocess: resize is given twice");
  EXPECT_EQ(message("order=gray,mean=1,2,3"), "--preprocess: mean and std of gray pictures are one number each");
}

// Folders.

TEST(Folders, InTheOrderOfNames) {
  Folder folder;
  for (const char *name : {"c.npy", "a.npy", "cats/b.npy", "b.npy", ".hidden"}) folder.add("f4.npy", name);
  FolderSamples samples(folder.path(), SIZE_MAX, {});
  ASSERT_EQ(samples.open({kMatrix}).message(), "");
  ASSERT_EQ(samples.count(), 4u);
  const char *const expected[] = {"a.npy", "b.npy", "c.npy", "cats/b.npy"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(samples.name(i), expected[i]);
  FolderSamples some(folder.path(), 2, {});
  ASSERT_EQ(some.open({kMatrix}).message(), "");
  ASSERT_EQ(some.count(), 2u);
  EXPECT_EQ(some.name(0), "a.npy");
  EXPECT_EQ(some.name(1), "c.npy");
}

TEST(Folders, OneForEachInput) {
  Folder folder;
  folder.add("f4.npy", "a/1.npy").add("u1.npy", "a/2.npy").add("rgb.ppm", "p/1.ppm").add("rgb.png", "p/2.png");
  const Input pixels{{Dtype::F32, {1, 3, kHeight, kWidth}}, "p"};
  std::vector<Tensor> out;
  ASSERT_EQ(load(folder, {kMatrix, pixels}, out, Preprocess{}), "");
  expect_ramp(out[0]);
  EXPECT_EQ(out[1].as<float>()[3], 30);
  EXPECT_EQ(error(folder, {kMatrix, pixels}),
            folder.at("p/1.ppm") + ": pictures need --preprocess, which says how the network sees them");
  folder.add("f4.npy", "a/3.npy");
  EXPECT_EQ(error(folder, {kMatrix, pixels}), "sample '3' has no file for input 'p' in " + folder.at("p"));
  EXPECT_EQ(error(folder, {kMatrix, {{Dtype::F32, {1}}, "q"}}),
            "there is no data for input 'q' of 2: " + folder.at("q/") +
                " with .npy files or pictures is expected, or .npz files with all inputs");
}

TEST(Folders, OneForEachInputWithFilesThatDoNotFit) {
  const Input second{{Dtype::F32, {2, 3}}, "b"};
  Folder twice;
  twice.add("f4.npy", "a/1.npy").add("u1.npy", "a/1.png").add("f4.npy", "b/1.npy");
  EXPECT_EQ(error(twice, {kMatrix, second}),
            twice.at("a/1.npy") + " and " + twice.at("a/1.png") + " are both sample '1' of input 'a'");
  for (const char *stray : {"1.npy", "c/1.npy", "ab/1.npy", "x.npz"}) {
    Folder folder;
    folder.add("f4.npy", "a/1.npy").add("f4.npy", "b/1.npy").add("f4.npy", stray);
    EXPECT_EQ(error(folder, {kMatrix, second}),
              folder.at(stray) + " is in the folder of no input, such as " + folder.at("a"));
  }
}

TEST(Folders, HavePipesAndDevicesWhoseEndNobodyKnows) {
  Folder pipe, device;
  ASSERT_EQ(mkfifo(pipe.at("a.npy").c_str(), 0600), 0);
  EXPECT_EQ(error(pipe, {kMatrix}),
            pipe.at("a.npy") + " is no regular file: a pipe or a device has no end that is known");
  std::filesystem::create_symlink("/dev/zero", device.at("b.npy"));
  EXPECT_EQ(error(device, {kMatrix}),
            device.at("b.npy") + " is no regular file: a pipe or a device has no end that is known");
}

/// What reads a whole file says so of a folder.
TEST(Folders, AreNoFiles) {
  Folder folder;
  std::string bytes;
  std::map<std::string, int64_t> labels;
  graph::TensorPtr tensor;
  const std::string message = "cannot read " + folder.path() + ": it is a folder";
  EXPECT_EQ(arrays::read_file(folder.path(), bytes).message(), message);
  EXPECT_EQ(npuc::read_labels(folder.path(), labels).message(), message);
  EXPECT_EQ(arrays::read_npy(folder.path(), tensor).message(), message);
  EXPECT_EQ(arrays::read_npy(folder.at("x.npy"), tensor).message(),
            "cannot read " + folder.at("x.npy") + ": No such file or directory");
}

TEST(Folders, Errors) {
  Folder folder;
  EXPECT_EQ(error(folder), "the folder " + folder.path() + " has no samples: .npy, .npz and pictures are expected");
  folder.write("notes.txt", "x");
  EXPECT_EQ(error(folder),
            folder.at("notes.txt") + ": a sample's file ends in .npy, .npz, .png, .jpg, .jpeg, .bmp, .ppm or .pgm");
  FolderSamples none("/nonexistent", 1, {});
  EXPECT_EQ(none.open({kMatrix}).message(), "there is no folder /nonexistent");
  Folder picture;
  picture.write("x.png", "no picture");
  std::vector<Tensor> out;
  EXPECT_EQ(load(picture, {kMatrix}, out, Preprocess{}),
            picture.at("x.png") + ": not a picture: PNG, JPEG, BMP, PPM or PGM is expected");
}

TEST(Labels, AreReadAndErrorsNameTheLine) {
  Folder folder;
  std::map<std::string, int64_t> labels;
  folder.write("labels", "# classes\na.npy 3\n\nwith blanks.png\t 0\r\n");
  ASSERT_EQ(npuc::read_labels(folder.at("labels"), labels).message(), "");
  EXPECT_EQ(labels, (std::map<std::string, int64_t>{{"a.npy", 3}, {"with blanks.png", 0}}));
  const auto message = [&](const std::string &text) {
    labels.clear();
    folder.write("labels", text);
    return npuc::read_labels(folder.at("labels"), labels).message();
  };
  const std::string expected = "a sample's name and the number of its class are expected";
  EXPECT_EQ(message("a 1\nb"), folder.at("labels") + ": line 2: " + expected);
  EXPECT_EQ(message("a cat"), folder.at("labels") + ": line 1: " + expected);
  EXPECT_EQ(message("a 99999999999999999999"), folder.at("labels") + ": line 1: " + expected);
  EXPECT_EQ(message("a 1\na 2"), folder.at("labels") + ": line 2: sample 'a' has a line already");
}

}  // namespace
}  // namespace npu::test
