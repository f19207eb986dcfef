"""`make fuzz`: each reader reads its sound file, and every file of a stored folder has a reader."""

import fuzz
import pytest

READERS = {reader.name: reader for reader in fuzz.readers()}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.filterwarnings("ignore::nearfar.errors.NearfarWarning")
def test_sound_files_are_read(name, tmp_path):
    READERS[name].make(tmp_path)
    assert (tmp_path / READERS[name].damaged).is_file()
    READERS[name].read(tmp_path)


@pytest.mark.parametrize("name", fuzz.STORED)
def test_every_file_of_a_stored_folder_has_a_reader(name, tmp_path):
    READERS[f"{name}: {fuzz.STORED[name][0]}"].make(tmp_path)
    assert {path.name for path in (tmp_path / "stored").iterdir()} == set(fuzz.STORED[name])
