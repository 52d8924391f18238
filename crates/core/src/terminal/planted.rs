use crate::planted::planted;

planted! {
    /// Bugs that a test can switch on in how files are moved, to prove that the tests would notice
    /// them. Whoever reads, writes or keeps files says whether it has one: those of hosts never do,
    /// and the compiler removes the switches.
    pub enum Planted {
        /// The journal says that octets are there before they are synced.
        JournalBeforeOctets,
        /// Octets that the journal speaks of are never synced.
        OctetsNotSynced,
        /// The journal is never synced.
        JournalNotSynced,
        /// A sync that has failed is taken for done.
        FailedSyncTaken,
        /// The names of an unfinished file and its journal are not synced.
        NamesNotSynced,
        /// That of the directory that they are in is not.
        PlaceOfNamesNotSynced,
        /// Nor is a journal that is taken up, whoever had it.
        TakenUpNotSynced,
        /// The journal is believed, whatever the octets are.
        RecordsBelieved,
        /// Octets that were not found right stay when a file is taken up.
        RestKept,
        /// The journal of another source is gone on with.
        OtherSourceTaken,
        /// Holes of whole disk-PDUs are not looked after at the end.
        HolesUnchecked,
        /// They are not noted.
        HoleForgotten,
        /// Holes are sent as zeros.
        HolesSent,
        /// Octets that were found right are synced at the end only.
        NeverSynced,
        /// A file that is left to be gone on with is not synced.
        LeftNotSynced,
        /// A file gets its name before all that is known of it is synced.
        RenamedBeforeSync,
        /// It is not synced behind that either.
        FileNotSynced,
        /// A file gets its permissions and time behind its name.
        TraitsAfterName,
        /// Its name is not synced.
        NameNotSynced,
        /// Those of the directories that it is in are not.
        ParentsNotSynced,
        /// A file whose receiver has died behind its name is left as it is.
        NamedForgotten,
        /// Its journal stays.
        JournalStays,
        /// The directory of unfinished files stays.
        DirectoryStays,
        /// Small files are not synced.
        GroupNotSynced,
        /// They have their names before they are synced.
        GroupNamedBeforeSync,
        /// Their names are not synced.
        GroupNamesNotSynced,
        /// Of the directories that they are in the last one alone is synced.
        OneDirectorySynced,
        /// They have their names though they could not be synced.
        FailedGroupNamed,
        /// They have neither permissions nor time.
        GroupTraitsForgotten,
        /// A small file is said to be safe when it is written.
        SettledBeforePut,
        /// A group that is not full waits for ever.
        GroupNeverPut,
        /// A PDU of another run is taken.
        StaleRunTaken,
        /// p is not pulled back behind a damaged PDU: it counts as there.
        DamagedHeld,
        /// A PDU that is held is written again.
        HeldOverwritten,
        /// A source that was changed is not looked at again.
        ChangeNotSeen,
        /// A file is put though its giver has not said that it was unchanged.
        WholeNotAwaited,
        /// Of a file that has gaps the first alone is asked for.
        GapsForgotten,
        /// A file is said to be the same as the one that is there, whatever their digests are.
        ComparedUnseen,
        /// Octets that found no room on the disk are taken for written.
        FullNotSeen,
    }
}
