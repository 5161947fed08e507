#include "sample_io/parquet_values.h"

#include <parquet/column_page.h>
#include <parquet/encoding.h>
#include <parquet/exception.h>
#include <parquet/schema.h>

#include <map>

namespace starling {
namespace {

template <typename Type>
class Values : public ChunkValues {
 public:
  using T = typename Type::c_type;
  explicit Values(const parquet::ColumnDescriptor& leaf) : leaf_(leaf) {}

  void SetDictionary(const parquet::DictionaryPage& page) override {
    if (page.num_values() < 0 || page.num_values() > page.size() / int64_t{sizeof(T)}) {
      throw parquet::ParquetException("a dictionary larger than its page");
    }
    auto plain = parquet::MakeTypedDecoder<Type>(parquet::Encoding::PLAIN, &leaf_);
    plain->SetData(page.num_values(), page.data(), page.size());
    dictionary_ = parquet::MakeDictDecoder<Type>(&leaf_);
    dictionary_->SetDict(plain.get());
  }

  void Start(const parquet::DataPage& page, std::span<const uint8_t> bytes) override {
    const parquet::Encoding::type encoding = page.encoding();
    if (encoding == parquet::Encoding::RLE_DICTIONARY ||
        encoding == parquet::Encoding::PLAIN_DICTIONARY) {
      if (dictionary_ == nullptr) throw parquet::ParquetException("no dictionary before its page");
      decoder_ = dictionary_.get();
    } else {
      auto& own = decoders_[encoding];
      if (own == nullptr) own = parquet::MakeTypedDecoder<Type>(encoding, &leaf_);
      if (own == nullptr) throw parquet::ParquetException("values in an unknown encoding");
      decoder_ = own.get();
    }
    decoder_->SetData(page.num_values(), bytes.data(), static_cast<int>(bytes.size()));
  }

  void Read(int n, void* values) override {
    if (n > 0 && decoder_->Decode(static_cast<T*>(values), n) != n) {
      throw parquet::ParquetException("fewer values than levels");
    }
  }

 private:
  const parquet::ColumnDescriptor& leaf_;
  std::unique_ptr<parquet::DictDecoder<Type>> dictionary_;
  std::map<parquet::Encoding::type, std::unique_ptr<parquet::TypedDecoder<Type>>> decoders_;
  parquet::TypedDecoder<Type>* decoder_ = nullptr;  // One of these.
};

}  // namespace

std::unique_ptr<ChunkValues> ChunkValues::Make(const parquet::ColumnDescriptor& leaf) {
  switch (leaf.physical_type()) {
    case parquet::Type::INT64:
      return std::make_unique<Values<parquet::Int64Type>>(leaf);
    case parquet::Type::INT32:
      return std::make_unique<Values<parquet::Int32Type>>(leaf);
    case parquet::Type::DOUBLE:
      return std::make_unique<Values<parquet::DoubleType>>(leaf);
    case parquet::Type::FLOAT:
      return std::make_unique<Values<parquet::FloatType>>(leaf);
    default:
      return nullptr;
  }
}

}  // namespace starling
