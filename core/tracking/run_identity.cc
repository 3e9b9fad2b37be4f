#include "core/tracking/run_identity.h"

#include <openssl/sha.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace accel::tracking {
namespace {

std::string Digest(absl::string_view uid, absl::string_view purpose) {
  const std::string text = absl::StrCat(purpose, "\n", uid);
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace

std::string DerivedHex(absl::string_view uid, absl::string_view purpose, size_t digits) {
  return absl::BytesToHexString(Digest(uid, purpose)).substr(0, digits);
}

std::string DerivedName(absl::string_view uid, absl::string_view purpose, size_t letters) {
  static constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string name = Digest(uid, purpose).substr(0, letters);
  for (char& c : name) c = kAlphabet[static_cast<unsigned char>(c) % 36];
  return name;
}

}  // namespace accel::tracking
