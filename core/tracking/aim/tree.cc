#include "core/tracking/aim/tree.h"

#include <sodium.h>

#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"

namespace accel::tracking::aim {
namespace {

using nlohmann::json;

// Kinds of leaves.
constexpr char kNull = 0;
constexpr char kBool = 1;
constexpr char kInteger = 2;
constexpr char kFloat = 3;
constexpr char kText = 4;
constexpr char kBytes = 5;
constexpr char kList = 6;
constexpr char kEmptyMap = 7;

// Ends a part of a path, and begins one that is an integer.
constexpr char kMark = '\xFE';

// Salt of the hash of integers.
constexpr int64_t kIntegerSalt = -7494597716789683807;

template <typename T>
void AppendLittle(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>((static_cast<uint64_t>(value) >> (8 * i)) & 0xFF));
  }
}

template <typename T>
T ReadLittle(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return static_cast<T>(value);
}

void AppendKey(absl::string_view key, std::string* path) {
  absl::StrAppend(path, key);
  path->push_back(kMark);
}

void AppendIndex(int64_t index, std::string* path) {
  path->push_back(kMark);
  for (int shift = 56; shift >= 0; shift -= 8) {
    path->push_back(static_cast<char>((static_cast<uint64_t>(index) >> shift) & 0xFF));
  }
  path->push_back(kMark);
}

void AppendLeaf(const std::string& path, const std::string& leaf, std::string* out) {
  AppendLittle(static_cast<uint32_t>(path.size()), out);
  absl::StrAppend(out, path);
  // No blob.
  out->push_back('\0');
  AppendLittle(static_cast<uint32_t>(leaf.size()), out);
  absl::StrAppend(out, leaf);
}

std::string ScalarLeaf(const json& value) {
  std::string leaf;
  if (value.is_boolean()) {
    leaf = {kBool, static_cast<char>(value.get<bool>() ? 1 : 0)};
  } else if (value.is_number_integer()) {
    leaf.push_back(kInteger);
    AppendLittle(value.get<int64_t>(), &leaf);
  } else if (value.is_number_float()) {
    const double number = value.get<double>();
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    leaf.push_back(kFloat);
    AppendLittle(bits, &leaf);
  } else if (value.is_string()) {
    leaf.push_back(kText);
    absl::StrAppend(&leaf, value.get_ref<const std::string&>());
  } else {
    leaf.push_back(kNull);
  }
  return leaf;
}

void Append(const json& value, const std::string& path, std::string* out) {
  if (value.is_array()) {
    AppendLeaf(path, std::string(1, kList), out);
    for (size_t i = 0; i < value.size(); ++i) {
      std::string child = path;
      AppendIndex(static_cast<int64_t>(i), &child);
      Append(value[i], child, out);
    }
  } else if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      std::string child = path;
      AppendKey(key, &child);
      Append(member, child, out);
    }
  } else {
    AppendLeaf(path, value.is_object() ? std::string(1, kEmptyMap) : ScalarLeaf(value), out);
  }
}

absl::Status NoTree(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("no tree of aim: ", why));
}

absl::StatusOr<std::vector<std::string>> SplitPath(absl::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    if (path.front() == kMark) {
      if (path.size() < 10 || path[9] != kMark) return NoTree("a broken path");
      uint64_t index = 0;
      for (int i = 1; i <= 8; ++i) index = index << 8 | static_cast<unsigned char>(path[i]);
      parts.push_back(absl::StrCat(static_cast<int64_t>(index)));
      path.remove_prefix(10);
    } else {
      const size_t end = path.find(kMark);
      if (end == absl::string_view::npos) return NoTree("a broken path");
      parts.emplace_back(path.substr(0, end));
      path.remove_prefix(end + 1);
    }
  }
  return parts;
}

absl::StatusOr<json> ReadLeaf(absl::string_view leaf) {
  if (leaf.empty()) return NoTree("an empty leaf");
  const absl::string_view data = leaf.substr(1);
  switch (leaf.front()) {
    case kNull:
      return json();
    case kBool:
      return json(!data.empty() && data.front() != 0);
    case kInteger:
      if (data.size() != 8) break;
      return json(ReadLittle<int64_t>(data));
    case kFloat: {
      if (data.size() != 8) break;
      const uint64_t bits = ReadLittle<uint64_t>(data);
      double number = 0;
      std::memcpy(&number, &bits, sizeof(number));
      return json(number);
    }
    case kText:
    case kBytes:
      return json(std::string(data));
    case kList:
      return json::array();
    case kEmptyMap:
      return json::object();
  }
  return NoTree("a leaf of another kind");
}

absl::Status Insert(const std::vector<std::string>& path, json leaf, json* root) {
  json* node = root;
  for (const std::string& part : path) {
    if (node->is_array()) {
      size_t index = 0;
      if (!absl::SimpleAtoi(part, &index) || index > node->size()) return NoTree("a broken list");
      node = &(*node)[index];
    } else {
      if (!node->is_object()) *node = json::object();
      node = &(*node)[part];
    }
  }
  *node = std::move(leaf);
  return absl::OkStatus();
}

}  // namespace

std::string EncodeTree(const json& value) {
  std::string out;
  Append(value, "", &out);
  return out;
}

absl::StatusOr<json> DecodeTree(absl::string_view bytes) {
  json root;
  // The length that stands at the front, and as many bytes behind it.
  const auto take = [&](absl::string_view* part) {
    if (bytes.size() < 4) return false;
    const size_t size = ReadLittle<uint32_t>(bytes);
    bytes.remove_prefix(4);
    if (bytes.size() < size) return false;
    *part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return true;
  };
  while (!bytes.empty()) {
    absl::string_view path, leaf;
    if (!take(&path) || bytes.empty()) return NoTree("it is cut off");
    bytes.remove_prefix(1);
    if (!take(&leaf)) return NoTree("it is cut off");
    ACCEL_ASSIGN_OR_RETURN(const std::vector<std::string> parts, SplitPath(path));
    ACCEL_ASSIGN_OR_RETURN(json value, ReadLeaf(leaf));
    ACCEL_RETURN_IF_ERROR(Insert(parts, std::move(value), &root));
  }
  return root;
}

std::string PathKey(absl::string_view key) {
  if (key.empty()) return "_";
  return absl::StrReplaceAll(RepairUtf8(key), {{absl::string_view("\0", 1), "\uFFFD"}});
}

int64_t StepKey(int64_t step) {
  std::string input, salt, digest(8, '\0');
  AppendLittle(step, &input);
  AppendLittle(kIntegerSalt, &salt);
  salt.resize(crypto_generichash_blake2b_SALTBYTES, '\0');
  const std::array<unsigned char, crypto_generichash_blake2b_PERSONALBYTES> personal = {};
  crypto_generichash_blake2b_salt_personal(
      reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
      reinterpret_cast<const unsigned char*>(input.data()), input.size(), nullptr, 0,
      reinterpret_cast<const unsigned char*>(salt.data()), personal.data());
  return ReadLittle<int64_t>(digest);
}

}  // namespace accel::tracking::aim
